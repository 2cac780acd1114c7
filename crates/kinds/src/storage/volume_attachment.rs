//! VolumeAttachment: a volume is, or is to be, attached to a node.

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};

use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<VolumeAttachment>(Attachments).versioned_puts().status()
}

struct Attachments;

impl Strategy for Attachments {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({ "attached": false });
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        spec.field("attacher").need_form(errors, |name| format::subdomain(&name.to_ascii_lowercase()));
        let source = spec.field("source");
        let (inline, volume) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
        match (inline.exists(), volume.exists()) {
            (false, false) => source
                .required(errors, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            (true, true) => source
                .forbidden(errors, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            (false, true) => volume.problems(errors, format::subdomain(volume.text())),
            (true, false) => {}
        }
        spec.field("nodeName").need_form(errors, format::subdomain);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("spec").unchanged(errors, &At::root(old).field("spec"));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(vec![
            Column::new("Name", "string"),
            Column::new("Attacher", "string"),
            Column::new("PV", "string"),
            Column::new("Node", "string"),
            Column::new("Attached", "boolean"),
            Column::new("Age", "string"),
        ])
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::text_or(&spec["attacher"], "").into(),
            table::text_or(&spec["source"]["persistentVolumeName"], "").into(),
            table::text_or(&spec["nodeName"], "").into(),
            json!(object["status"]["attached"] == true),
            table::age(object, now),
        ]
    }
}
