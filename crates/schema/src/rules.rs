//! Value validation beyond types, as custom kinds declare it.

use std::sync::Arc;

use serde_json::{Number, Value};

use crate::{Pattern, Schema};

/// `enum`, `pattern`, bounds, `allOf` and the like of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// `enum`.
    pub allowed: Vec<Value>,
    pub pattern: Option<Arc<Pattern>>,
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub multiple_of: Option<Number>,
    /// In characters.
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<Arc<Schema>>,
    pub any_of: Vec<Arc<Schema>>,
    pub one_of: Vec<Arc<Schema>>,
    pub not: Option<Arc<Schema>>,
}

/// A limit of a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub limit: Number,
    /// The limit itself is outside.
    pub exclusive: bool,
}
