//! Answers of `.waitForTaskToken` tasks: success, failure, a heartbeat.
//!
//! Whoever answers must be allowed to (`create` of `workflowruns/tasks`) and must have the token, which takes the run's
//! secret to make. An answer is kept beside the run before it is acknowledged, by whichever server got it; the server
//! that leads sees the run's annotation change and takes it in.

use std::sync::Arc;

use minik8s_api::{OwnerVersion, RecordChange, RecordOutcome, Records, RecordsError};
use minik8s_asl::definition::{MachineType, Pattern};
use minik8s_asl::engine::{Event, LARGEST_PAYLOAD};
use serde::Deserialize;
use serde_json::Value;

use crate::engine::drive::{pattern, replay};
use crate::journal::{Journal, JournalError};
use crate::kinds::parse_definition;

/// Counts the answers of a run.
pub const ANNOTATION: &str = "workflows.minik8s.io/answers";

/// As AWS names refusals.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum Refused {
    #[error("InvalidToken: the token is not of a task of this run")]
    InvalidToken,
    #[error("TaskTimedOut: nobody waits for this task any more")]
    TaskTimedOut,
    #[error("InvalidOutput: {0}")]
    InvalidOutput(String),
    #[error("the run changes too often; try again")]
    Overtaken,
    #[error("the store does not answer: {0}")]
    Store(String),
}

/// What somebody says of a task: exactly one of output, error and heartbeat.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub token: String,
    #[serde(default, deserialize_with = "given")]
    pub output: Option<Value>,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub cause: Option<String>,
    #[serde(default)]
    pub heartbeat: bool,
}

/// `null` is an output too.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Answer {
    /// `RUN.TASK.PROOF`.
    fn task(&self) -> Option<u64> {
        self.token.rsplit('.').nth(1)?.parse().ok()
    }

    fn event(self, task: u64) -> Result<Event, Refused> {
        match (self.output, self.error, self.heartbeat) {
            (Some(output), None, false) if output.to_string().len() > LARGEST_PAYLOAD => {
                Err(Refused::InvalidOutput("an output has at most 256 KiB".to_owned()))
            }
            (Some(output), None, false) => Ok(Event::TaskSucceeded { task, output }),
            (None, Some(error), false) => Ok(Event::TaskFailed { task, error, cause: self.cause }),
            (None, None, true) => Ok(Event::TaskHeartbeat { task }),
            _ => Err(Refused::InvalidOutput("say one of \"output\", \"error\" and \"heartbeat\"".to_owned())),
        }
    }
}

/// Checks an answer and keeps it. `revision` is that of the object as it was seen.
pub async fn accept(
    records: &Arc<dyn Records>,
    owner: OwnerVersion<'_>,
    uid: &str,
    answer: Answer,
) -> Result<(), Refused> {
    let task = answer.task().ok_or(Refused::InvalidToken)?;
    let opened =
        Journal::open(records.clone(), uid).await.map_err(|error| Refused::Store(error.to_string()))?;
    let (_, kept) = opened.ok_or(Refused::InvalidToken)?;
    if !same(&kept.beginning.start.identity.token(task), &answer.token) {
        return Err(Refused::InvalidToken);
    }
    let definition = parse_definition(&kept.beginning.definition, MachineType::Standard);
    let (_, outstanding, _) = replay(definition.map_err(|_| Refused::TaskTimedOut)?, kept);
    let waits = outstanding.tasks.get(&task).map(|request| pattern(&request.resource));
    if waits != Some(Pattern::WaitForTaskToken) {
        return Err(Refused::TaskTimedOut);
    }
    let event = answer.event(task)?;
    let record = match event {
        Event::TaskHeartbeat { .. } => format!("a{task:08}-{}", uuid::Uuid::new_v4().simple()),
        _ => format!("a{task:08}"),
    };
    let store = |error: RecordsError| Refused::Store(error.to_string());
    // The first end counts.
    if records.read(uid).await.map_err(store)?.iter().any(|kept| kept.name == record) {
        return Err(Refused::TaskTimedOut);
    }
    let value = serde_json::to_vec(&event).map_err(|error| Refused::InvalidOutput(error.to_string()))?;
    let create = vec![(record, value.into())];
    let change = RecordChange { create, owner: Some(owner), ..RecordChange::default() };
    match records.write(uid, change).await.map_err(store)? {
        RecordOutcome::Written(_) => records.touch(owner.object, ANNOTATION).await.map_err(store),
        RecordOutcome::Conflict => Err(Refused::Overtaken),
    }
}

/// Answers that nobody has taken in yet.
pub async fn waiting(records: &dyn Records, uid: &str) -> Result<Vec<(String, Event)>, JournalError> {
    let found = records.read(uid).await?.into_iter().filter(|record| record.name.starts_with('a'));
    let read = |value: &[u8]| {
        serde_json::from_slice(value).map_err(|error| JournalError::Unreadable(error.to_string()))
    };
    found.map(|record| Ok((record.name, read(&record.value)?))).collect()
}

/// Takes as long for every difference.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
