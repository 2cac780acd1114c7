//! One line of execution: the run itself, a branch, or an iteration. It is in one state, and waits for something or
//! is about to go on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::evaluate::Variables;

/// Which machine inside of the definition: from the outermost in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub state: String,
    /// Which branch of a Parallel; 0 for a Map.
    pub branch: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    pub parent: Option<u64>,
    /// Which branch or iteration.
    pub index: usize,
    pub place: Vec<Place>,
    pub state: String,
    /// As the state got it.
    pub input: Value,
    pub entered: u64,
    pub entered_time: i64,
    pub variables: Variables,
    /// How often each retrier was used in this state.
    pub retries: Vec<u64>,
    pub retry_count: u64,
    /// `$$.Map.Item` of an iteration.
    pub item: Option<Value>,
    /// A run of its own: it sees no outer variables and has no part in the history.
    pub detached: bool,
    /// A run of its own elsewhere: all that is known here is the task that it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
    pub waiting: Waiting,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Waiting {
    Nothing,
    Task { task: u64, timeout: Option<u64>, heartbeat: Option<u64>, heartbeat_seconds: Option<i64> },
    Wait { timer: u64 },
    Retry { timer: u64 },
    Children(Box<Children>),
}

impl Waiting {
    pub(super) fn has_timer(&self, wanted: u64) -> bool {
        match self {
            Self::Wait { timer } | Self::Retry { timer } => *timer == wanted,
            Self::Task { timeout, heartbeat, .. } => [*timeout, *heartbeat].contains(&Some(wanted)),
            Self::Nothing | Self::Children(_) => false,
        }
    }
}

/// Branches or iterations that run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Children {
    pub results: Vec<Option<Value>>,
    pub done: usize,
    pub running: usize,
    pub failed: usize,
    /// Of a Map: what is still to do, last first, and how many at once.
    pub items: Vec<Value>,
    pub most: usize,
    /// The effective input, which item selectors look at.
    pub input: Value,
    /// How many may fail.
    pub tolerated_count: Option<i64>,
    pub tolerated_percentage: Option<f64>,
}

impl Thread {
    pub(super) fn new(
        parent: Option<u64>,
        index: usize,
        place: Vec<Place>,
        state: String,
        input: Value,
    ) -> Self {
        Self {
            parent,
            index,
            place,
            state,
            input,
            entered: 0,
            entered_time: 0,
            variables: Variables::new(),
            retries: Vec::new(),
            retry_count: 0,
            item: None,
            detached: false,
            elsewhere: false,
            waiting: Waiting::Nothing,
        }
    }
}
