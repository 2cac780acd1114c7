//! Why a state failed: an error's name and its cause, in AWS' words.

use serde::{Deserialize, Serialize};

/// Names of errors that the language itself raises.
pub const RUNTIME: &str = "States.Runtime";
pub const TIMEOUT: &str = "States.Timeout";
pub const HEARTBEAT_TIMEOUT: &str = "States.HeartbeatTimeout";
pub const DATA_LIMIT_EXCEEDED: &str = "States.DataLimitExceeded";
pub const QUERY_EVALUATION: &str = "States.QueryEvaluationError";
pub const RESULT_PATH_MATCH: &str = "States.ResultPathMatchFailure";
pub const EXCEED_TOLERATED: &str = "States.ExceedToleratedFailureThreshold";
pub const ITEM_READER_FAILED: &str = "States.ItemReaderFailed";

/// A failed state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub error: Option<String>,
    pub cause: Option<String>,
    /// The field whose expression failed: history tells of it.
    pub location: Option<String>,
    /// The cause still wants the sentence that names the state.
    unnamed: bool,
}

impl Failure {
    pub fn new(error: &str, cause: impl Into<String>) -> Self {
        Self { error: Some(error.to_owned()), cause: Some(cause.into()), location: None, unnamed: false }
    }

    pub fn reported(error: Option<String>, cause: Option<String>) -> Self {
        Self { error, cause, location: None, unnamed: false }
    }

    /// Of the state that runs: the cause will name it.
    pub fn in_state(error: &str, cause: impl Into<String>) -> Self {
        Self { unnamed: true, ..Self::new(error, cause) }
    }

    pub fn runtime(cause: impl Into<String>) -> Self {
        Self::in_state(RUNTIME, cause)
    }

    /// A JSONata expression in `field`.
    pub fn query(field: &str, cause: impl Into<String>) -> Self {
        Self { location: Some(field.to_owned()), ..Self::in_state(QUERY_EVALUATION, cause) }
    }

    /// With the state's name, once.
    pub fn named(mut self, state: &str, entered: u64) -> Self {
        if std::mem::take(&mut self.unnamed) {
            let cause = self.cause.take().unwrap_or_default();
            self.cause = Some(format!(
                "An error occurred while executing the state '{state}' (entered at the event id #{entered}). {cause}"
            ));
        }
        self
    }

    /// True when a retrier's or catcher's list names it. `States.Runtime` can never be caught.
    pub fn matches(&self, errors: &[String]) -> bool {
        let error = self.error.as_deref().unwrap_or_default();
        error != RUNTIME
            && errors.iter().any(|wanted| {
                wanted == error
                    || wanted == "States.ALL"
                    || (wanted == "States.TaskFailed" && error != TIMEOUT)
                    || (wanted == TIMEOUT && error == HEARTBEAT_TIMEOUT)
            })
    }

    /// What a catcher hands on.
    pub fn output(&self) -> serde_json::Value {
        let mut output = serde_json::Map::new();
        if let Some(error) = &self.error {
            output.insert("Error".into(), error.clone().into());
        }
        if let Some(cause) = &self.cause {
            output.insert("Cause".into(), cause.clone().into());
        }
        serde_json::Value::Object(output)
    }
}
