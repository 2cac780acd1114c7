//! The fields of a value.

use minik8s_schema::{ListType, Schema, Type};
use serde_json::Value;

use super::keys::sorted_items;
use super::{Shape, child, items, shape};
use crate::fieldset::{FieldSet, Node, PathElement};

/// Whether a map or list that the schema names is itself a field, beside its contents.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Containers {
    /// It is not: whoever applies `labels: {a: b}` owns `labels.a` only.
    Implied,
    /// It is: whoever updates an object that had no labels owns `labels` too. Objects with named fields
    /// of their own stay out of it.
    Listed,
}

/// The fields inside of a value.
pub(crate) fn fields_of(
    schema: Option<&Schema>,
    value: &Value,
    containers: Containers,
    depth: usize,
) -> FieldSet {
    let mut set = FieldSet::default();
    match shape(schema, value, depth) {
        Shape::Leaf => {}
        Shape::Map(fields) => {
            for (name, value) in fields {
                let (field, named) = child(schema, name);
                let below = fields_of(field, value, containers, depth + 1);
                let member = is_field(field, value, &below, named, containers);
                set.push_owned(PathElement::field(name), member, below);
            }
        }
        Shape::List(list) => {
            // Without identities the list is one value, whose membership its parent decides.
            for item in sorted_items(schema, list).unwrap_or_default() {
                let below = fields_of(items(schema), item.value, containers, depth + 1);
                // Elements that share an identity are owned together, and not field by field.
                if set.nodes().last().is_some_and(|last| last.element == item.element) {
                    set.clear_last();
                } else {
                    set.push_owned(item.element, true, below);
                }
            }
        }
    }
    set.sort();
    set
}

/// Whether the value itself counts, given the fields inside of it.
pub(super) fn is_field(
    schema: Option<&Schema>,
    value: &Value,
    below: &FieldSet,
    named: bool,
    containers: Containers,
) -> bool {
    let is_struct = value.is_object() && schema.is_some_and(|schema| !schema.fields.is_empty());
    !named || below.is_empty() || (containers == Containers::Listed && !is_struct)
}

/// Adapts what was recorded to a schema that has since made a place atomic: the owner of fields inside
/// of it owns it as a whole. Whether anything had to be adapted.
pub(crate) fn reconcile(schema: Option<&Schema>, set: &mut FieldSet) -> bool {
    let mut adapted = false;
    set.retain(|Node { element, member, children }| {
        if children.is_empty() {
            return true;
        }
        let below = match element {
            PathElement::Field(name) => child(schema, name).0,
            _ => items(schema),
        };
        if below.is_some_and(became_atomic) {
            *children = FieldSet::default();
            *member = true;
            adapted = true;
        } else {
            adapted |= reconcile(below, children);
        }
        true
    });
    adapted
}

fn became_atomic(schema: &Schema) -> bool {
    match schema.ty {
        Type::Array => schema.list == ListType::Atomic,
        Type::Object => schema.atomic,
        _ => false,
    }
}
