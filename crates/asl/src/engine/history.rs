//! The history of a run as AWS tells it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Execution;

/// One event. Details are values here and texts of JSON in AWS' shape (`to_aws`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryEvent {
    pub id: u64,
    pub previous: u64,
    pub time: i64,
    #[serde(rename = "type")]
    pub kind: String,
    pub details: Map<String, Value>,
    /// Of which thread it is, so that what runs at once can be told apart. AWS' shape has it not.
    #[serde(default)]
    pub thread: u64,
}

pub(super) fn put(details: &mut Map<String, Value>, key: &str, value: Option<String>) {
    if let Some(value) = value {
        details.insert(key.into(), value.into());
    }
}

impl Execution {
    /// Adds an event, unless the thread is a run of its own. Details are made only when they are told.
    pub(super) fn tell(
        &mut self,
        thread: u64,
        kind: &str,
        fill: impl FnOnce(&mut Map<String, Value>, &Self),
    ) -> u64 {
        if self.is_detached(thread) {
            return self.state.last_event;
        }
        let mut details = Map::new();
        fill(&mut details, self);
        let id = self.state.next_event;
        self.history.push(HistoryEvent {
            id,
            previous: self.state.last_event,
            time: self.now,
            kind: kind.to_owned(),
            details,
            thread,
        });
        self.state.next_event += 1;
        self.state.last_event = id;
        id
    }

    pub(super) fn is_detached(&self, thread: u64) -> bool {
        let mut here = self.state.threads.get(&thread);
        while let Some(thread) = here {
            if thread.detached {
                return true;
            }
            here = thread.parent.and_then(|parent| self.state.threads.get(&parent));
        }
        false
    }
}

impl HistoryEvent {
    /// `{id, previousEventId, timestamp, type, …EventDetails}`.
    pub fn to_aws(&self) -> Value {
        let mut event = json!({
            "id": self.id,
            "previousEventId": self.previous,
            "timestamp": crate::timestamp::format(self.time),
            "type": self.kind,
        });
        let mut details = self.details.clone();
        for (key, extra) in [("input", "inputDetails"), ("output", "outputDetails")] {
            if let Some(value) = details.get(key) {
                let text = value.to_string();
                details.insert(key.into(), text.into());
                details.insert(extra.into(), json!({"truncated": false}));
            }
        }
        if let Some(value) = details.get("parameters") {
            let text = value.to_string();
            details.insert("parameters".into(), text.into());
        }
        if !details.is_empty() {
            event[details_name(&self.kind)] = Value::Object(details);
        }
        event
    }
}

/// `TaskStateEntered` → `stateEnteredEventDetails`, `TaskFailed` → `taskFailedEventDetails`.
fn details_name(kind: &str) -> String {
    if kind.ends_with("StateEntered") {
        return "stateEnteredEventDetails".into();
    }
    if kind.ends_with("StateExited") {
        return "stateExitedEventDetails".into();
    }
    let mut letters = kind.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_lowercase).collect();
    format!("{first}{}EventDetails", letters.as_str())
}
