//! Fields that a schema does not declare, which an applied configuration may not hold.
//!
//! It is stricter and looser than pruning, as upstream is: an object without declared fields takes any, and
//! `x-kubernetes-preserve-unknown-fields` also holds for what is declared below it, but not for metadata.

use minik8s_schema::Schema;
use serde_json::Value;

use super::keys::identify;
use super::{is_atomic_list, items};
use crate::fieldset::{FieldPath, PathElement};

/// More than this is not listed: a hostile body must not make a long answer.
const MAX_REPORTED: usize = 100;

/// Where fields stand that are not declared.
pub(crate) fn undeclared(schema: &Schema, value: &Value) -> Vec<FieldPath> {
    let mut walk = Walk { path: Vec::new(), found: Vec::new() };
    walk.value(schema, value, false);
    walk.found
}

struct Walk {
    path: Vec<PathElement>,
    found: Vec<FieldPath>,
}

impl Walk {
    /// `open`: something above takes unknown fields.
    fn value(&mut self, schema: &Schema, value: &Value, open: bool) {
        let open = open || schema.preserve_unknown;
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.path.push(PathElement::field(name));
                    self.field(schema, name, value, open);
                    self.path.pop();
                }
            }
            Value::Array(list) => {
                let Some(element) = items(Some(schema)) else { return };
                for (index, value) in list.iter().enumerate() {
                    let position = || PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX));
                    let identity = match is_atomic_list(Some(schema)) {
                        true => position(),
                        false => identify(Some(schema), value).unwrap_or_else(|_| position()),
                    };
                    self.path.push(identity);
                    self.value(element, value, open);
                    self.path.pop();
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, parent: &Schema, name: &str, value: &Value, open: bool) {
        let is_metadata = name == "metadata" && (self.path.len() == 1 || parent.embedded_resource);
        match (parent.fields.get(name), &parent.values) {
            (Some(field), _) => self.value(field, value, open && !is_metadata),
            (None, Some(values)) => self.value(values, value, open),
            (None, None) if open || parent.fields.is_empty() => {}
            (None, None) if self.found.len() < MAX_REPORTED => self.found.push(FieldPath(self.path.clone())),
            (None, None) => {}
        }
    }
}
