//! PersistentVolume: a piece of storage.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolume;
use minik8s_meta::local_volume;
use serde_json::{Value, json};

use super::volume_access::{self, class, phase, short_modes};
use crate::At;
use crate::fill;
use crate::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, Part, Resource, Strategy, format};

/// Fields of a spec that say where the storage is: exactly one is set.
const SOURCES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

const HOST_PATH_TYPES: &[&str] =
    &["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

pub(crate) fn resource() -> Resource {
    Resource::of::<PersistentVolume>(Volumes).short(&["pv"]).status()
}

struct Volumes;

impl Strategy for Volumes {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            fill::field(spec, "persistentVolumeReclaimPolicy", "Retain");
            fill::field(spec, "volumeMode", "Filesystem");
            for (source, field, value) in [
                ("hostPath", "type", ""),
                ("iscsi", "iscsiInterface", "default"),
                ("rbd", "pool", "rbd"),
                ("rbd", "user", "admin"),
                ("rbd", "keyring", "/etc/ceph/keyring"),
            ] {
                if let Some(source) = spec.get_mut(source) {
                    fill::field(source, field, value);
                }
            }
        }
        if let Some(status) = fill::object(object, "status") {
            fill::field(status, "phase", "Pending");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({ "phase": "Pending" });
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        volume_access::validate(&spec, "", errors);
        validate_capacity(&spec.field("capacity"), errors);
        spec.field("persistentVolumeReclaimPolicy").one_of(errors, &["Delete", "Recycle", "Retain"]);
        validate_source(&spec, errors);
        let affinity = spec.field("nodeAffinity");
        if affinity.exists() && !affinity.field("required").exists() {
            affinity.field("required").required(errors, "must specify required node constraints");
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        if SOURCES.iter().any(|source| new.value[source] != old.value[source]) {
            errors.forbidden(
                new.path.field("persistentvolumesource"),
                "spec.persistentvolumesource is immutable after creation",
            );
        }
        new.field("volumeMode").unchanged(errors, &old.field("volumeMode"));
        let affinity = old.field("nodeAffinity");
        if affinity.exists() {
            new.field("nodeAffinity").unchanged(errors, &affinity);
        }
    }

    /// Agents follow the volumes whose images they keep.
    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let csi = &object["spec"]["csi"];
        let node = csi["volumeAttributes"][local_volume::NODE_ATTRIBUTE].as_str();
        let node = node.filter(|_| csi["driver"] == local_volume::DRIVER);
        vec![(local_volume::NODE_FIELD, node.unwrap_or_default().to_owned())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &[local_volume::NODE_FIELD]
    }

    fn selectable_parts(&self, field: &str) -> Option<&'static [Part]> {
        (field == local_volume::NODE_FIELD).then_some(&[("spec", "csi")])
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &[
                "Name",
                "Capacity",
                "Access Modes",
                "Reclaim Policy",
                "Status",
                "Claim",
                "StorageClass",
                "VolumeAttributesClass",
                "Reason",
                "Age",
            ],
            &["VolumeMode"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let claim = &spec["claimRef"];
        let claim = match claim.is_null() {
            true => String::new(),
            false => {
                format!("{}/{}", table::text_or(&claim["namespace"], ""), table::text_or(&claim["name"], ""))
            }
        };
        vec![
            table::name(object),
            table::text_or(&spec["capacity"]["storage"], "0").into(),
            short_modes(&spec["accessModes"]).into(),
            table::text_or(&spec["persistentVolumeReclaimPolicy"], "").into(),
            phase(object).into(),
            claim.into(),
            class(object).into(),
            table::text_or(&spec["volumeAttributesClassName"], UNSET).into(),
            table::text_or(&status["reason"], "").into(),
            table::age(object, now),
            table::text_or(&spec["volumeMode"], UNSET).into(),
        ]
    }
}

fn validate_capacity(capacity: &At<'_>, errors: &mut FieldErrors) {
    if !capacity.need(errors) {
        return;
    }
    if capacity.len() > 1 || !capacity.field("storage").exists() {
        capacity.not_supported(errors, &["storage"]);
    }
    for (_, quantity) in capacity.entries() {
        quantity.quantity_positive(errors);
    }
}

fn validate_source(spec: &At<'_>, errors: &mut FieldErrors) {
    let mut sources = SOURCES.iter().map(|name| spec.field(name)).filter(At::exists);
    let Some(_) = sources.next() else {
        spec.required(errors, "must specify a volume type");
        return;
    };
    for source in sources {
        source.forbidden(errors, "may not specify more than 1 volume type");
    }
    validate_host_path(spec, errors);
    let nfs = spec.field("nfs");
    if nfs.exists() {
        nfs.field("server").need(errors);
        let path = nfs.field("path");
        if path.need(errors) && !path.text().starts_with('/') {
            path.invalid(errors, "must be an absolute path");
        }
    }
    let local = spec.field("local");
    if local.exists() {
        let path = local.field("path");
        if path.need(errors) {
            validate_no_backsteps(&path, errors);
        }
        if !spec.field("nodeAffinity").exists() {
            spec.field("nodeAffinity").required(errors, "Local volume requires node affinity");
        }
    }
    let csi = spec.field("csi");
    if csi.exists() {
        csi.field("driver").need_form(errors, |name| format::subdomain(&name.to_ascii_lowercase()));
        csi.field("volumeHandle").need(errors);
    }
}

fn validate_host_path(spec: &At<'_>, errors: &mut FieldErrors) {
    let host = spec.field("hostPath");
    if !host.exists() {
        return;
    }
    let path = host.field("path");
    if path.need(errors) {
        validate_no_backsteps(&path, errors);
    }
    host.field("type").one_of(errors, HOST_PATH_TYPES);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if policy.text() == "Recycle" && path.text().trim_end_matches('/').is_empty() {
        policy.forbidden(errors, "may not be 'recycle' for a hostPath mount of '/'");
    }
}

fn validate_no_backsteps(path: &At<'_>, errors: &mut FieldErrors) {
    if path.text().split('/').any(|part| part == "..") {
        path.invalid(errors, "must not contain '..'");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn volume(more: Value) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "pv-1"}, "spec": spec})
    }

    #[test]
    fn defaults() {
        check::defaults(
            "persistentvolumes",
            json!({"spec": {"hostPath": {"path": "/a"}}}),
            json!({
                "spec": {"hostPath": {"path": "/a", "type": ""},
                    "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }),
        );
    }

    #[test]
    fn validation() {
        #[track_caller]
        fn check(more: Value, expected: &[&str]) {
            check::errors("persistentvolumes", volume(more), expected);
        }
        check(json!({"hostPath": {"path": "/a"}}), &[]);
        check(json!({}), &["spec: Required value: must specify a volume type"]);
        check(
            json!({"hostPath": {"path": "/a/../b"}, "nfs": {"server": "s", "path": "x"}}),
            &[
                "spec.nfs: Forbidden: may not specify more than 1 volume type",
                "spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "spec.nfs.path: Invalid value: \"x\": must be an absolute path",
            ],
        );
        check(
            json!({"local": {"path": "/a"}}),
            &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        );
        check(
            json!({"capacity": {"cpu": "1"}, "csi": {"driver": "a.b"}}),
            &[
                "spec.capacity: Unsupported value: {\"cpu\":\"1\"}: supported values: \"storage\"",
                "spec.csi.volumeHandle: Required value",
            ],
        );
        check(
            json!({"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"}),
            &[
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            ],
        );
    }

    #[test]
    fn updates() {
        let at = |path: &str| volume(json!({"hostPath": {"path": path}}));
        check::update_errors("persistentvolumes", at("/a"), at("/a"), &[]);
        check::update_errors(
            "persistentvolumes",
            at("/a"),
            at("/b"),
            &[
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
            ],
        );
    }

    #[test]
    fn columns() {
        let mut object = volume(
            json!({"claimRef": {"namespace": "ns", "name": "data"}, "persistentVolumeReclaimPolicy": "Delete"}),
        );
        object["status"] = json!({"phase": "Bound"});
        check::row(
            "persistentvolumes",
            object,
            &["pv-1", "1Gi", "RWO", "Delete", "Bound", "ns/data", "", "<unset>", "", "<unknown>", "<unset>"],
        );
    }
}
