//! Selectors: which objects a request or a workload means.
//!
//! [`LabelSelector`] is both the string form of a query (`a in (b,c),!d`) and the `LabelSelector` object
//! of a spec; [`FieldSelector`] is the string form over fields. Parsing is linear in the input and never
//! recurses; matching never allocates.

mod field;
mod label;
mod label_object;
mod label_parser;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};

/// Why a selector was not understood. An API server answers 400 with this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
