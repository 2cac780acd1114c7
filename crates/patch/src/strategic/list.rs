//! Lists in a strategic merge patch: merged by key, merged by value, or replaced.

use std::collections::{HashMap, HashSet};

use minik8s_schema::{Path, Schema};
use serde_json::Value;

use super::{DELETE_FROM, Directive, SET_ORDER, directive, malformed, merge_map, order, plain, plain_list};
use crate::PatchError;

/// Merges a list of the patch into the list of the document. `order` is its `$setElementOrder`.
pub(super) fn merge(
    schema: Option<&Schema>,
    patch: &[Value],
    order: Option<&Value>,
    doc: &mut Vec<Value>,
    path: &Path,
) -> Result<(), PatchError> {
    if !schema.is_some_and(|schema| schema.merge.merge) {
        *doc = plain_list(patch);
        return Ok(());
    }
    match element_kind(doc.iter().chain(patch), path)? {
        None => Ok(()),
        Some(Kind::Scalar) => merge_values(patch, order, doc, path),
        Some(Kind::Map) => merge_maps(schema, patch, order, doc, path),
    }
}

/// Orders a list that the patch does not change otherwise.
pub(super) fn reorder(
    schema: Option<&Schema>,
    order: &Value,
    doc: Option<&mut Value>,
    path: &Path,
) -> Result<(), PatchError> {
    let order = order_list(order, path)?;
    let (Some(Value::Array(doc)), Some(schema)) = (doc, schema.filter(|schema| schema.merge.merge)) else {
        return Ok(());
    };
    let key = match element_kind(doc.iter(), path)? {
        Some(Kind::Map) => Some(merge_key(Some(schema), path)?),
        _ => None,
    };
    let wanted = identities(order, key, path)?;
    let server: Vec<Option<String>> = doc.iter().map(|item| identity(item, key)).collect();
    order::arrange(doc, key, &wanted, &server);
    Ok(())
}

/// `$deleteFromPrimitiveList`: takes the values out of the list.
pub(super) fn delete_values(values: &Value, doc: Option<&mut Value>, path: &Path) -> Result<(), PatchError> {
    let Value::Array(values) = values else {
        return Err(malformed(path, &format!("{DELETE_FROM} must be followed by a list of values")));
    };
    if let Some(Value::Array(doc)) = doc {
        let doomed: HashSet<String> = values.iter().map(Value::to_string).collect();
        doc.retain(|item| !doomed.contains(&item.to_string()));
    }
    Ok(())
}

/// A list of primitives is a set: the union, in the patch's order.
fn merge_values(
    patch: &[Value],
    order: Option<&Value>,
    doc: &mut Vec<Value>,
    path: &Path,
) -> Result<(), PatchError> {
    let server: Vec<Option<String>> = doc.iter().map(|item| identity(item, None)).collect();
    let mut seen: HashSet<String> = HashSet::new();
    let all = std::mem::take(doc).into_iter().chain(patch.iter().cloned());
    *doc = all.filter(|item| seen.insert(item.to_string())).collect();
    let wanted = wanted_order(patch, order, None, path)?;
    order::arrange(doc, None, &wanted, &server);
    Ok(())
}

fn merge_maps(
    schema: Option<&Schema>,
    patch: &[Value],
    order: Option<&Value>,
    doc: &mut Vec<Value>,
    path: &Path,
) -> Result<(), PatchError> {
    let key = merge_key(schema, path)?;
    let mut changes = Vec::with_capacity(patch.len());
    let mut replace = false;
    let mut doomed: HashSet<String> = HashSet::new();
    for (index, item) in patch.iter().enumerate() {
        let Value::Object(fields) = item else { continue };
        let at = path.index(index);
        match directive(fields, &at)? {
            Some(Directive::Replace) => replace = true,
            Some(Directive::Delete) => {
                doomed.insert(identity(item, Some(key)).ok_or_else(|| no_merge_key(&at, key))?);
            }
            Some(Directive::Merge) | None => changes.push((index, item)),
        }
    }
    if replace {
        *doc = changes.into_iter().filter_map(|(_, item)| plain(item)).collect();
        return Ok(());
    }
    doc.retain(|item| identity(item, Some(key)).is_none_or(|id| !doomed.contains(&id)));
    let server: Vec<Option<String>> = doc.iter().map(|item| identity(item, Some(key))).collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, id) in server.iter().enumerate() {
        if let Some(id) = id {
            places.entry(id.clone()).or_insert(place);
        }
    }
    let elements = schema.and_then(|schema| schema.items.as_deref());
    for (index, item) in &changes {
        let at = path.index(*index);
        let id = identity(item, Some(key)).ok_or_else(|| no_merge_key(&at, key))?;
        match (places.get(&id).map(|place| &mut doc[*place]), item) {
            (Some(Value::Object(old)), Value::Object(change)) => merge_map(elements, change, old, &at)?,
            _ => {
                places.insert(id, doc.len());
                doc.extend(plain(item));
            }
        }
    }
    let changed: Vec<Value> = changes.into_iter().map(|(_, item)| item.clone()).collect();
    let wanted = wanted_order(&changed, order, Some(key), path)?;
    order::arrange(doc, Some(key), &wanted, &server);
    Ok(())
}

/// The order the result should have: `$setElementOrder` if given, else the patch's own.
fn wanted_order(
    patch: &[Value],
    order: Option<&Value>,
    key: Option<&str>,
    path: &Path,
) -> Result<Vec<String>, PatchError> {
    let own = identities(patch, key, path)?;
    let Some(order) = order else { return Ok(own) };
    let wanted = identities(order_list(order, path)?, key, path)?;
    let mut rest = wanted.iter();
    if !wanted.is_empty() && !own.iter().all(|id| rest.any(|other| other == id)) {
        return Err(malformed(
            path,
            &format!("the order of the patch's list does not match its {SET_ORDER} list"),
        ));
    }
    Ok(wanted)
}

fn identities(items: &[Value], key: Option<&str>, path: &Path) -> Result<Vec<String>, PatchError> {
    let missing = |index: usize| no_merge_key(&path.index(index), key.unwrap_or_default());
    items.iter().enumerate().map(|(i, item)| identity(item, key).ok_or_else(|| missing(i))).collect()
}

/// What makes an element itself: the value of its merge key, or all of it.
pub(super) fn identity(item: &Value, key: Option<&str>) -> Option<String> {
    match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

fn order_list<'a>(order: &'a Value, path: &Path) -> Result<&'a [Value], PatchError> {
    match order {
        Value::Array(order) => Ok(order),
        _ => Err(malformed(path, &format!("{SET_ORDER} must be followed by a list"))),
    }
}

fn merge_key<'s>(schema: Option<&'s Schema>, path: &Path) -> Result<&'s str, PatchError> {
    schema.and_then(|schema| schema.merge.key.as_deref()).ok_or_else(|| PatchError::Field {
        path: path.clone(),
        reason: "cannot merge lists of objects without a merge key".to_owned(),
    })
}

fn no_merge_key(path: &Path, key: &str) -> PatchError {
    PatchError::Field { path: path.clone(), reason: format!("does not contain declared merge key: {key}") }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Map,
    Scalar,
}

/// What the elements are. Lists of lists and mixed lists cannot be merged.
fn element_kind<'a>(items: impl Iterator<Item = &'a Value>, path: &Path) -> Result<Option<Kind>, PatchError> {
    let mut found = None;
    for item in items {
        let kind = match item {
            Value::Object(_) => Kind::Map,
            Value::Array(_) => return Err(mixed(path, "lists of lists cannot be merged")),
            _ => Kind::Scalar,
        };
        if *found.get_or_insert(kind) != kind {
            return Err(mixed(path, "list element types are not identical"));
        }
    }
    Ok(found)
}

fn mixed(path: &Path, reason: &str) -> PatchError {
    PatchError::Field { path: path.clone(), reason: reason.to_owned() }
}
