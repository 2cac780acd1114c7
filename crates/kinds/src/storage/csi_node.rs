//! CSINode: the storage drivers of a node.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::{Value, json};

use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

const MAX_NODE_ID: usize = 256;

pub(crate) fn resource() -> Resource {
    Resource::of::<CSINode>(CsiNodes).versioned_puts().status()
}

struct CsiNodes;

impl Strategy for CsiNodes {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let mut names = HashSet::new();
        for driver in At::root(object).field("spec").field("drivers").items() {
            let (name, node) = (driver.field("name"), driver.field("nodeID"));
            name.need_form(errors, |name| format::subdomain(&name.to_ascii_lowercase()));
            if !names.insert(name.text()) {
                name.duplicate(errors);
            }
            if node.need(errors) && node.text().len() > MAX_NODE_ID {
                node.invalid(errors, format!("must be {MAX_NODE_ID} characters or less"));
            }
            driver.field("allocatable").field("count").not_negative(errors);
            for key in driver.field("topologyKeys").items() {
                key.problems(errors, format::qualified_name(key.text()));
            }
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(vec![
            Column::new("Name", "string"),
            Column::new("Drivers", "integer"),
            Column::new("Age", "string"),
        ])
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), json!(table::count(&object["spec"]["drivers"])), table::age(object, now)]
    }
}
