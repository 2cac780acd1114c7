//! Why a patch cannot be applied, and what the API answers.

use minik8s_schema::Path;

use crate::{depth, json};

/// A patch that was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a patch of its kind at all.
    #[error("{0}")]
    Malformed(String),
    #[error("the allowed maximum operations in a JSON patch is {max}, got {0}", max = json::MAX_OPERATIONS)]
    TooManyOperations(usize),
    #[error("the patched object would be nested more than {max} levels deep", max = depth::MAX)]
    TooDeep,
    /// One operation of a JSON patch cannot be carried out on this document.
    #[error("operation {index} ({op} {path:?}): {reason}")]
    Operation { index: usize, op: String, path: String, reason: String },
    /// A strategic merge patch does not fit the object at this place.
    #[error("{path}: {reason}")]
    Field { path: Path, reason: String },
}

impl PatchError {
    /// The HTTP status upstream answers with.
    pub fn status(&self) -> u16 {
        match self {
            PatchError::Malformed(_) | PatchError::TooDeep => 400,
            PatchError::TooManyOperations(_) => 413,
            PatchError::Operation { .. } | PatchError::Field { .. } => 422,
        }
    }
}
