//! Taking away what a manager applied before and no longer does.

use minik8s_schema::{ListType, Schema};
use serde_json::Value;

use super::keys::identify;
use super::{Shape, child, items, shape};
use crate::fieldset::{FieldSet, Node, PathElement};

/// Removes from `value` the fields of `last` that nobody owns any more.
///
/// A field that the schema names, or an entry of a map, goes with all that is inside of it once nobody
/// owns it or anything inside. A list element goes when nobody owns the element itself: half an element
/// is of no use, so owning a field inside of it does not keep it, as upstream has it.
pub(crate) fn prune(
    schema: Option<&Schema>,
    value: &mut Value,
    last: &FieldSet,
    owned: &FieldSet,
    depth: usize,
) {
    match shape(schema, value, depth) {
        Shape::Leaf => {}
        Shape::Map(_) => {
            let Value::Object(fields) = value else { return };
            for Node { element, member, children } in last.nodes() {
                let PathElement::Field(name) = element else { continue };
                let Some(field) = fields.get_mut(&**name) else { continue };
                let (field_schema, named) = child(schema, name);
                let owner = owned.get(element);
                if owner.is_none() && (*member || named) && !is_identity(name, depth) {
                    fields.shift_remove(&**name);
                    continue;
                }
                let empty = FieldSet::default();
                prune(field_schema, field, children, owner.map_or(&empty, |node| &node.children), depth + 1);
                if !children.is_empty() && is_empty_container(field) && !owner.is_some_and(|node| node.member)
                {
                    fields.shift_remove(&**name);
                }
            }
        }
        Shape::List(_) => {
            let Value::Array(list) = value else { return };
            list.retain_mut(|item| prune_item(schema, item, last, owned, depth));
        }
    }
}

/// Whether the list element stays.
fn prune_item(
    schema: Option<&Schema>,
    item: &mut Value,
    last: &FieldSet,
    owned: &FieldSet,
    depth: usize,
) -> bool {
    let Ok(element) = identify(schema, item) else { return true };
    let Some(before) = last.get(&element) else { return true };
    let owner = owned.get(&element);
    if before.member && !owner.is_some_and(|node| node.member) {
        return false;
    }
    let mut inside = owner.map(|node| node.children.clone()).unwrap_or_default();
    keep_keys(schema, &mut inside);
    prune(items(schema), item, &before.children, &inside, depth + 1);
    true
}

/// An element that stays keeps the fields that tell it apart.
fn keep_keys(schema: Option<&Schema>, owned: &mut FieldSet) {
    if let Some(ListType::Map(keys)) = schema.map(|schema| &schema.list) {
        let mut all = FieldSet::default();
        for key in keys {
            all.push_owned(PathElement::field(key), true, FieldSet::default());
        }
        all.sort();
        *owned = owned.union(&all);
    }
}

/// The fields without which an object is none are never taken away.
fn is_identity(name: &str, depth: usize) -> bool {
    depth == 0 && matches!(name, "apiVersion" | "kind" | "metadata")
}

fn is_empty_container(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}
