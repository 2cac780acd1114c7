//! Why an evaluation came to no value.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error("no such overload{0}")]
    NoSuchOverload(String),
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("no such attribute(s): {0}")]
    NoSuchVariable(String),
    /// The expression may cost no more; nothing absorbs this error.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    #[error("{0}")]
    Failed(String),
}

impl EvalError {
    pub fn failed(message: impl Into<String>) -> Self {
        EvalError::Failed(message.into())
    }

    pub fn no_such_overload() -> Self {
        EvalError::NoSuchOverload(String::new())
    }
}
