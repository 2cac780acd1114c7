//! What an object may look like, as one tree that everything reads.
//!
//! A [`Schema`] is compiled from OpenAPI v3 JSON: for built-in kinds from the `k8s-openapi` types, for
//! custom kinds from their CustomResourceDefinition. Type checks, pruning, defaulting, validation,
//! strategic merge and server-side apply all walk this same tree, so built-in and custom kinds share one
//! request path. It does no IO and knows no kind by name.

mod check;
mod compile;
mod default;
mod field;
mod format;
mod parse;
mod pattern;
mod prune;
mod rules;
mod structural;
#[cfg(test)]
mod testing;
mod trail;
mod tree;
mod unknown;
mod validate;

pub use check::{Findings, Mismatch};
pub use compile::CompileError;
pub use field::{FieldError, FieldErrorKind, FieldErrors, Path};
pub use parse::{DuplicateField, YamlError, parse_json, parse_yaml};
pub use pattern::Pattern;
pub use rules::{Bound, Rules};
pub use structural::structural_errors;
pub use tree::{ListType, Schema, StrategicMerge, Type};
pub use unknown::UnknownField;
