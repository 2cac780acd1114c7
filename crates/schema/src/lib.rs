//! What an object may look like, as one tree that everything reads.
//!
//! A [`Schema`] is compiled from OpenAPI v3 JSON: for built-in kinds from the `k8s-openapi` types, for
//! custom kinds from their CustomResourceDefinition. Type checks, pruning, defaulting, validation,
//! strategic merge and server-side apply all walk this same tree, so built-in and custom kinds share one
//! request path. It does no IO and knows no kind by name.

mod field;
mod rules;
mod tree;

pub use field::{FieldError, FieldErrorKind, FieldErrors, Path};
pub use rules::Rules;
pub use tree::{ListType, Schema, StrategicMerge, Type};
