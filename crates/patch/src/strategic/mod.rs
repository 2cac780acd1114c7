//! Kubernetes' strategic merge patch.
//!
//! A merge patch that also merges lists: the schema says which lists merge and by which key
//! ([`minik8s_schema::StrategicMerge`]). Directives in the patch steer it:
//!
//! | Directive | Meaning |
//! |---|---|
//! | `$patch: replace` | take this map, or the whole list the marker stands in, as it is |
//! | `$patch: delete` | empty this map, or delete the list element with this key |
//! | `$patch: merge` | what happens anyway |
//! | `$retainKeys: [..]` | drop the fields of the old map that are not named |
//! | `$deleteFromPrimitiveList/F: [..]` | delete these values from list `F` |
//! | `$setElementOrder/F: [..]` | bring list `F` into this order |
//!
//! No directive ever reaches the result. Custom kinds have no strategic merge; refusing it for them is the
//! server's job.

mod list;
mod order;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use minik8s_schema::{Path, Schema};
use serde_json::{Map, Value};

use crate::{PatchError, depth};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Merges `patch` into `doc`. An error leaves `doc` half patched: give it a copy.
pub fn apply(schema: &Schema, patch: &Value, doc: &mut Value) -> Result<(), PatchError> {
    depth::check(patch)?;
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Ok(()),
        _ => return Err(PatchError::Malformed("a strategic merge patch must be an object".to_owned())),
    };
    let Value::Object(fields) = doc else {
        return Err(PatchError::Malformed("only an object can be patched".to_owned()));
    };
    merge_map(Some(schema), patch, fields, &Path::root())
}

/// Merges a map of the patch into the map of the document at `path`.
fn merge_map(
    schema: Option<&Schema>,
    patch: &Map<String, Value>,
    doc: &mut Map<String, Value>,
    path: &Path,
) -> Result<(), PatchError> {
    match directive(patch, path)? {
        Some(Directive::Replace) => {
            *doc = plain_map(patch);
            return Ok(());
        }
        Some(Directive::Delete) => {
            doc.clear();
            return Ok(());
        }
        Some(Directive::Merge) | None => {}
    }
    retain_keys(patch, doc, path)?;
    for (name, change) in patch {
        if !is_directive(name) {
            merge_field(child(schema, name), name, change, patch, doc, path)?;
        }
    }
    for (name, values) in patch {
        if let Some(field) = name.strip_prefix(SET_ORDER) {
            // Lists that the patch changes were ordered when they were merged.
            if !patch.contains_key(field) {
                list::reorder(child(schema, field), values, doc.get_mut(field), &path.field(field))?;
            }
        } else if let Some(field) = name.strip_prefix(DELETE_FROM) {
            list::delete_values(values, doc.get_mut(field), &path.field(field))?;
        }
    }
    Ok(())
}

fn merge_field(
    schema: Option<&Schema>,
    name: &str,
    change: &Value,
    patch: &Map<String, Value>,
    doc: &mut Map<String, Value>,
    path: &Path,
) -> Result<(), PatchError> {
    if change.is_null() {
        doc.shift_remove(name);
        return Ok(());
    }
    match (doc.get_mut(name), change) {
        (Some(Value::Object(old)), Value::Object(change)) if !schema.is_some_and(|s| s.merge.replace) => {
            merge_map(schema, change, old, &path.field(name))
        }
        (Some(Value::Array(old)), Value::Array(change)) => {
            let order = patch.get(&format!("{SET_ORDER}{name}"));
            list::merge(schema, change, order, old, &path.field(name))
        }
        (Some(old), change) => {
            match plain(change) {
                Some(new) => *old = new,
                None => drop(doc.shift_remove(name)),
            }
            Ok(())
        }
        (None, change) => {
            if let Some(new) = plain(change) {
                doc.insert(name.to_owned(), new);
            }
            Ok(())
        }
    }
}

/// `$retainKeys`: the patch names every field that may stay.
fn retain_keys(
    patch: &Map<String, Value>,
    doc: &mut Map<String, Value>,
    path: &Path,
) -> Result<(), PatchError> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else {
        return Err(malformed(path, "$retainKeys must be a list of field names"));
    };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    for (name, change) in patch {
        if !change.is_null() && !is_directive(name) && !retained.contains(name.as_str()) {
            return Err(malformed(
                path,
                &format!("the patch sets {name:?}, which $retainKeys does not name"),
            ));
        }
    }
    doc.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

enum Directive {
    Replace,
    Delete,
    Merge,
}

fn directive(patch: &Map<String, Value>, path: &Path) -> Result<Option<Directive>, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None => Ok(None),
        Some(Some("replace")) => Ok(Some(Directive::Replace)),
        Some(Some("delete")) => Ok(Some(Directive::Delete)),
        Some(Some("merge")) => Ok(Some(Directive::Merge)),
        Some(_) => Err(malformed(path, "$patch must be \"replace\", \"delete\" or \"merge\"")),
    }
}

fn is_directive(name: &str) -> bool {
    name == PATCH || name == RETAIN_KEYS || name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER)
}

/// The value a patch stands for where there is nothing to merge with: no directives, no nulls.
/// `None` when it asks for deletion.
fn plain(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(fields) if fields.get(PATCH).is_some_and(|patch| patch == "delete") => None,
        Value::Object(fields) => Some(Value::Object(plain_map(fields))),
        Value::Array(items) => Some(Value::Array(plain_list(items))),
        other => Some(other.clone()),
    }
}

fn plain_map(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(name, value)| !is_directive(name) && !value.is_null());
    kept.filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect()
}

fn plain_list(items: &[Value]) -> Vec<Value> {
    items.iter().filter(|item| !is_marker(item)).filter_map(plain).collect()
}

/// `{"$patch": "replace"}` in a list only says what happens to the list.
fn is_marker(item: &Value) -> bool {
    item.get(PATCH).is_some_and(|patch| patch == "replace")
}

fn child<'s>(schema: Option<&'s Schema>, name: &str) -> Option<&'s Schema> {
    let schema = schema?;
    schema.fields.get(name).or(schema.values.as_ref()).map(|schema| &**schema)
}

fn malformed(path: &Path, reason: &str) -> PatchError {
    PatchError::Malformed(format!("{path}: {reason}"))
}
