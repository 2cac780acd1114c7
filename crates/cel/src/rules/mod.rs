//! `x-kubernetes-validations`: the rules of a schema, compiled once and held against objects.
//!
//! [`check`] is for a definition that is being written: what is wrong with its rules, and which could cost too much.
//! [`Rules`] is for objects of that definition. A rule that reads `oldSelf` runs only where there is an old value to
//! compare with; an error at a place that has not changed is a warning.

mod check;
mod compile;
mod correlation;
mod field_path;
mod walk;

use minik8s_schema::FieldErrors;
use serde_json::Value as Json;

pub use check::check;

/// The compiled rules of a schema. Cheap if it has none.
#[derive(Debug, Default)]
pub struct Rules {
    root: Option<compile::Node>,
}

/// What the rules say about an object.
#[derive(Debug, Default)]
pub struct Findings {
    pub errors: FieldErrors,
    /// What would be errors, had the fields been changed.
    pub warnings: FieldErrors,
}

impl Rules {
    /// The rules of an OpenAPI v3 schema of a whole resource.
    pub fn compile(schema: &Json) -> Self {
        Rules { root: compile::resource(schema) }
    }

    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Holds them against an object, which must conform to the schema; `old` is what it replaces.
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> Findings {
        match &self.root {
            Some(root) => walk::validate(root, object, old),
            None => Findings::default(),
        }
    }
}
