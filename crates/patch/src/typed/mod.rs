//! Objects as server-side apply sees them.
//!
//! The schema decides what is one value and what is many: objects and maps are taken apart unless atomic,
//! lists only when their elements have an identity (`x-kubernetes-list-type: map` or `set`), and
//! everything without a schema by its JSON type, lists whole. This module answers that question once for
//! the walks below it: which fields there are, what changed, how to merge, what to take away.
//!
//! The walks are lenient: a live object whose list lacks keys is treated as if that list were atomic.
//! Only [`keys::check`] refuses such lists, for configurations that clients apply.

mod compare;
mod declared;
mod fields;
pub(crate) mod keys;
mod merge;
mod nulls;
mod prune;

pub(crate) use compare::{Comparison, compare};
pub(crate) use declared::undeclared;
pub(crate) use fields::{Containers, fields_of, reconcile};
pub(crate) use merge::merge;
pub(crate) use nulls::{contains_null, drop_nulls};
pub(crate) use prune::prune;

use minik8s_schema::{ListType, Schema};
use serde_json::{Map, Value};

/// Anything deeper is owned as one value. FieldsV1 nests as deep as the object it describes, and must
/// itself fit into an object that can be parsed again.
const MAX_DEPTH: usize = 100;

/// What a value is made of.
#[derive(Clone, Copy)]
enum Shape<'v> {
    /// One value: a scalar, or something atomic.
    Leaf,
    Map(&'v Map<String, Value>),
    /// A list whose elements have an identity.
    List(&'v [Value]),
}

fn shape<'v>(schema: Option<&Schema>, value: &'v Value, depth: usize) -> Shape<'v> {
    if depth >= MAX_DEPTH {
        return Shape::Leaf;
    }
    match value {
        Value::Object(fields) if !schema.is_some_and(|schema| schema.atomic) => Shape::Map(fields),
        Value::Array(items) if !is_atomic_list(schema) => Shape::List(items),
        _ => Shape::Leaf,
    }
}

pub(crate) fn is_atomic_list(schema: Option<&Schema>) -> bool {
    schema.is_none_or(|schema| schema.list == ListType::Atomic)
}

/// The schema of a field, and whether the schema names the field (rather than it being a map's entry).
fn child<'s>(schema: Option<&'s Schema>, name: &str) -> (Option<&'s Schema>, bool) {
    let Some(schema) = schema else { return (None, false) };
    match schema.fields.get(name) {
        Some(field) => (Some(field), true),
        None => (schema.values.as_deref(), false),
    }
}

pub(crate) fn child_schema<'s>(schema: Option<&'s Schema>, name: &str) -> Option<&'s Schema> {
    child(schema, name).0
}

pub(crate) fn items(schema: Option<&Schema>) -> Option<&Schema> {
    schema.and_then(|schema| schema.items.as_deref())
}
