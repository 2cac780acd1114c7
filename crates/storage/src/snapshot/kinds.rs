//! The kinds of `snapshot.storage.k8s.io`: their names, rules and columns.

use jiff::Timestamp;
use minik8s_api::{At, Cell, Column, FieldErrors, Resource, Strategy, table};
use minik8s_meta::snapshot::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use serde_json::Value;

const POLICIES: &[&str] = &["Delete", "Retain"];

pub fn all() -> Vec<Resource> {
    vec![
        // `vs`, upstream's short name, is VirtualServices' here.
        Resource::of::<VolumeSnapshot>(Snapshots).short(&["volsnap"]).status(),
        Resource::of::<VolumeSnapshotContent>(Contents).short(&["vsc", "vscs"]).status(),
        Resource::of::<VolumeSnapshotClass>(Classes).short(&["vsclass", "vsclasses"]),
    ]
}

/// Exactly one of two fields.
fn one_of(source: &At<'_>, names: [&str; 2], errors: &mut FieldErrors) {
    let [first, second] = names.map(|name| source.field(name));
    match (first.is_set(), second.is_set()) {
        (true, false) | (false, true) => {}
        (false, false) => {
            source.required(errors, &format!("must specify exactly one of {} and {}", names[0], names[1]));
        }
        (true, true) => {
            source.forbidden(errors, format!("must specify exactly one of {} and {}", names[0], names[1]));
        }
    }
}

struct Snapshots;

impl Strategy for Snapshots {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let names = ["persistentVolumeClaimName", "volumeSnapshotContentName"];
        one_of(&spec.field("source"), names, errors);
        let class = spec.field("volumeSnapshotClassName");
        if class.exists() && class.text().is_empty() {
            class.invalid(errors, "must not be the empty string when set");
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("spec").unchanged(errors, &At::root(old).field("spec"));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&[
            "Name",
            "ReadyToUse",
            "SourcePVC",
            "SourceSnapshotContent",
            "RestoreSize",
            "SnapshotClass",
            "SnapshotContent",
            "CreationTime",
            "Age",
        ]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let source = &spec["source"];
        let taken = match status["creationTime"].is_string() {
            true => table::since(&status["creationTime"], now),
            false => String::new(),
        };
        vec![
            table::name(object),
            table::text_or(&status["readyToUse"], "").into(),
            table::text_or(&source["persistentVolumeClaimName"], "").into(),
            table::text_or(&source["volumeSnapshotContentName"], "").into(),
            table::text_or(&status["restoreSize"], "").into(),
            table::text_or(&spec["volumeSnapshotClassName"], "").into(),
            table::text_or(&status["boundVolumeSnapshotContentName"], "").into(),
            taken.into(),
            table::age(object, now),
        ]
    }
}

struct Contents;

impl Strategy for Contents {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        one_of(&spec.field("source"), ["volumeHandle", "snapshotHandle"], errors);
        spec.field("driver").need(errors);
        spec.field("deletionPolicy").need_one_of(errors, POLICIES);
        let reference = spec.field("volumeSnapshotRef");
        reference.field("name").need(errors);
        reference.field("namespace").need(errors);
        spec.field("sourceVolumeMode").one_of(errors, &["Filesystem", "Block"]);
    }

    /// Only the policy, and the snapshot's UID when it is bound, are written later.
    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        for field in ["source", "driver", "sourceVolumeMode"] {
            new.field(field).unchanged(errors, &old.field(field));
        }
        let (new, old) = (new.field("volumeSnapshotRef"), old.field("volumeSnapshotRef"));
        for field in ["name", "namespace"] {
            new.field(field).unchanged(errors, &old.field(field));
        }
        if old.field("uid").is_set() {
            new.field("uid").unchanged(errors, &old.field("uid"));
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&[
            "Name",
            "ReadyToUse",
            "RestoreSize",
            "DeletionPolicy",
            "Driver",
            "VolumeSnapshotClass",
            "VolumeSnapshot",
            "VolumeSnapshotNamespace",
            "Age",
        ]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let text = |value: &Value| -> Cell { table::text_or(value, "").into() };
        vec![
            table::name(object),
            text(&status["readyToUse"]),
            text(&status["restoreSize"]),
            text(&spec["deletionPolicy"]),
            text(&spec["driver"]),
            text(&spec["volumeSnapshotClassName"]),
            text(&spec["volumeSnapshotRef"]["name"]),
            text(&spec["volumeSnapshotRef"]["namespace"]),
            table::age(object, now),
        ]
    }
}

struct Classes;

impl Strategy for Classes {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        root.field("driver").need(errors);
        root.field("deletionPolicy").need_one_of(errors, POLICIES);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object), At::root(old));
        for field in ["driver", "parameters"] {
            new.field(field).unchanged(errors, &old.field(field));
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Driver", "DeletionPolicy", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::text_or(&object["driver"], "").into(),
            table::text_or(&object["deletionPolicy"], "").into(),
            table::age(object, now),
        ]
    }
}
