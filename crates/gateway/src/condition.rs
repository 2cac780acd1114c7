//! Conditions: a problem or its absence, and since when.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Why something is not so, in one word and in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
}

impl Problem {
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Problem { reason, message: message.into() }
    }
}

/// Writes the conditions of one list: times stay as long as statuses do.
pub struct Writer<'a> {
    pub known: &'a [Condition],
    pub generation: Option<i64>,
    pub now: Timestamp,
}

impl Writer<'_> {
    pub fn condition(&self, kind: &str, status: bool, reason: &str, message: &str) -> Condition {
        let status = if status { "True" } else { "False" };
        let known = self.known.iter().find(|known| known.type_ == kind && known.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: self.generation,
            last_transition_time: known.map_or(Time(self.now), |known| known.last_transition_time.clone()),
        }
    }

    /// True with the kind's own name as its reason, or false with the problem.
    pub fn outcome(&self, kind: &str, outcome: &Result<(), Problem>) -> Condition {
        match outcome {
            Ok(()) => self.condition(kind, true, kind, ""),
            Err(problem) => self.condition(kind, false, problem.reason, &problem.message),
        }
    }
}
