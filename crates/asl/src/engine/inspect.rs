//! Looking at one state: what it makes of its input on the way, and where it goes, without going there.

use serde_json::{Map, Value};

use super::{Command, Event, Execution, ROOT, Status, TaskRequest, Waiting};
use crate::definition::Transition;
use crate::failure::Failure;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    pub(crate) values: Map<String, Value>,
    pub(crate) output: Option<Value>,
    pub(crate) next: Option<String>,
    pub(crate) failure: Option<Failure>,
    /// Instead of the context object.
    pub(crate) context: Option<Value>,
    /// Results are mocked: they are what the service answers already.
    pub(crate) mocked: bool,
}

impl Inspection {
    pub(super) fn left(&mut self, output: &Value, transition: &Transition) {
        self.output = Some(output.clone());
        self.next = match transition {
            Transition::Next(next) => Some(next.clone()),
            Transition::End => None,
        };
    }
}

impl Execution {
    /// Enters the first state only. `retries` is how often each retrier was used before.
    pub(crate) fn inspect(&mut self, variables: Map<String, Value>) {
        if let Some(root) = self.state.threads.get_mut(&ROOT) {
            root.variables = variables;
        }
        self.ready.clear();
        self.advance(ROOT);
        let waiting = self.state.threads.get(&ROOT).map(|thread| thread.waiting.clone());
        if let Some(Waiting::Wait { .. }) = waiting {
            self.wait_over(ROOT);
        }
    }

    /// The task that the state waits for.
    pub(crate) fn inspected_task(&self) -> Option<u64> {
        match self.state.threads.get(&ROOT).map(|thread| &thread.waiting) {
            Some(Waiting::Task { task, .. }) => Some(*task),
            _ => None,
        }
    }

    /// The task as it was asked for.
    pub(crate) fn scheduled(&self) -> Option<TaskRequest> {
        self.commands.iter().find_map(|command| match command {
            Command::ScheduleTask(request) => Some((**request).clone()),
            _ => None,
        })
    }

    /// The state's mocked result, or why it failed, after `retries` uses of its retriers.
    pub(crate) fn inspect_result(&mut self, result: Result<Value, Failure>, retries: u64) {
        if let Some(root) = self.state.threads.get_mut(&ROOT) {
            root.retries = vec![retries; 64];
        }
        if self.inspection.as_ref().is_none_or(|inspection| inspection.failure.is_some()) {
            return;
        }
        match (self.inspected_task(), result) {
            (Some(task), Ok(output)) => self.task_succeeded(task, &output),
            (Some(task), Err(failure)) => self.task_failed(task, failure),
            (None, Ok(result)) => {
                if let Err(failure) = self.state_succeeded(ROOT, result) {
                    self.state_failed(ROOT, failure);
                }
            }
            (None, Err(failure)) => self.state_failed(ROOT, failure),
        }
    }

    /// True when a retrier took the failure.
    pub(crate) fn inspected_retry(&self) -> bool {
        self.state.status == Status::Running
            && matches!(
                self.state.threads.get(&ROOT).map(|thread| &thread.waiting),
                Some(Waiting::Retry { .. })
            )
    }

    /// The answer of a function that was really called.
    pub(crate) fn inspect_event(&mut self, event: &Event) {
        match event {
            Event::TaskSucceeded { task, output } => self.task_succeeded(*task, output),
            Event::TaskFailed { task, error, cause } => {
                self.task_failed(*task, Failure::reported(Some(error.clone()), cause.clone()));
            }
            _ => {}
        }
    }
}
