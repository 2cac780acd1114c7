//! The way from client-side to server-side apply.
//!
//! `kubectl apply` used to keep what it applied in an annotation. When the manager `kubectl` applies on
//! the server, fields that still have the value of that annotation are its own already: they are no
//! conflict. The annotation is kept up to date, so that client-side apply still works afterwards. Other
//! managers opt out of both by their name.

use std::collections::BTreeMap;

use minik8s_schema::Schema;
use serde_json::Value;

use crate::fieldset::FieldSet;
use crate::managed::Manager;
use crate::typed::{self, Containers};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KUBECTL: &str = "kubectl";
/// All annotations of an object together may have this size.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// The fields that client-side apply set and that nobody changed since.
pub(super) fn handed_over(live: &Value, schema: &Schema, manager: &Manager) -> Option<FieldSet> {
    if manager.name != KUBECTL {
        return None;
    }
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(&manager.api_version) {
        return None;
    }
    let change = typed::compare(schema, &last, live);
    let fields = typed::fields_of(Some(schema), &last, Containers::Implied, 0);
    Some(change.sets().into_iter().fold(fields, |kept, differing| kept.difference(differing)))
}

/// Writes the annotation anew, if the object has one.
pub(super) fn refresh(object: &mut Value, applied: &Value, manager: &Manager) {
    if manager.name != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut config = applied.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.shift_remove(ANNOTATION);
    }
    let Some(annotations) = annotations_mut(object) else { return };
    annotations.insert(ANNOTATION.to_owned(), Value::String(format!("{}\n", sorted(&config))));
    let size: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS_BYTES {
        annotations.shift_remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

fn annotations_mut(object: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// Fields in alphabetical order, as Go programs write JSON: the annotation then does not depend on the
/// order of the client's fields.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let ordered: BTreeMap<&String, &Value> = fields.iter().collect();
            ordered.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
