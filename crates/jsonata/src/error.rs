//! Errors with JSONata's codes.

/// Why an expression cannot be read or evaluated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Error {
    pub code: String,
    pub message: String,
    /// Bytes into the expression's text, where known.
    pub position: usize,
}

impl Error {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), position: 0 }
    }

    pub fn at(code: &str, position: usize, message: impl Into<String>) -> Self {
        Self { position, ..Self::new(code, message) }
    }
}
