//! The tree itself: plain data, shared by `Arc` where types repeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// One node: what a value at this place may be and how it is merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    pub ty: Type,
    /// Known fields of an object.
    pub fields: BTreeMap<Box<str>, Arc<Schema>>,
    /// `additionalProperties`: the value type of a map.
    pub values: Option<Arc<Schema>>,
    /// The element type of a list.
    pub items: Option<Arc<Schema>>,
    pub required: Vec<Box<str>>,
    pub nullable: bool,
    /// Unknown fields below stay (`x-kubernetes-preserve-unknown-fields`, recursive types, raw JSON).
    pub preserve_unknown: bool,
    /// A whole object with apiVersion, kind and metadata (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// How server-side apply treats a list (`x-kubernetes-list-type`).
    pub list: ListType,
    /// An object or map owned as one value (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// How a strategic merge patch treats a list or object (`x-kubernetes-patch-*`).
    pub merge: StrategicMerge,
    pub default: Option<Value>,
    /// `format`, e.g. `int32`, `date-time`, `byte`.
    pub format: Option<Box<str>>,
    /// Value validation that only custom kinds carry (enum, pattern, bounds, allOf, ...).
    pub rules: Option<Box<crate::Rules>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// Anything goes.
    #[default]
    Any,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// Elements are identified by the values of these fields.
    Map(Vec<Box<str>>),
}

/// `patchStrategy` and `patchMergeKey`. The default replaces lists and merges objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StrategicMerge {
    /// Merge lists element by element (by `key` for objects, by value for primitives).
    pub merge: bool,
    /// Take an object of the patch as it is instead of merging it into the old one.
    pub replace: bool,
    /// Drop the fields of the old object that the patch's `$retainKeys` does not name.
    pub retain_keys: bool,
    pub key: Option<Box<str>>,
}
