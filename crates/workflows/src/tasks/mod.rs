//! What tasks do: functions, other workflows, HTTP. Each resource is a file.

mod acknowledge;
mod child;
pub mod egress;
mod function;
mod http_invoke;
mod integrations;
mod log_result;
mod map_iteration;
mod outgoing;
mod response;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use minik8s_asl::engine::TaskRequest;
use serde_json::Value;

use crate::journal::Instance;

pub use egress::{Allowed, Egress};
pub use function::{Call, HttpInvoker, Invoker};
pub use integrations::Integrations;

/// Told at most once, by whoever carries out a task.
pub type TellInstance = Arc<OnceLock<Instance>>;

/// Whose task it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskContext {
    pub namespace: String,
    pub run: String,
    pub uid: String,
    pub workflow: String,
}

/// One task to carry out.
#[derive(Debug, Clone)]
pub struct Job {
    pub context: Arc<TaskContext>,
    pub request: TaskRequest,
    /// It was handed over before, by this process or one that is no more.
    pub submitted: bool,
    /// A process that is no more may have begun it.
    pub again: bool,
    /// Under which its result may be kept until the run has it; none where nothing of the run is kept.
    pub result_key: Option<String>,
    /// Where whoever carries it out says which instance did, once.
    pub instance: TellInstance,
}

impl Job {
    /// The same for every repetition of one attempt, and for no other.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}/{}", self.context.uid, self.request.task, self.request.attempt)
    }
}

/// How a task failed: what Retry and Catch see.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskError {
    pub error: String,
    pub cause: Option<String>,
}

impl TaskError {
    pub fn new(error: &str, cause: impl Into<String>) -> Self {
        TaskError { error: error.to_owned(), cause: Some(cause.into()) }
    }
}

/// Says that a task runs elsewhere now.
pub type Submitted<'a> = &'a (dyn Fn(Value) + Send + Sync);

/// Carries out tasks. One that is no longer awaited is dropped.
#[async_trait]
pub trait Tasks: Send + Sync {
    async fn run(&self, job: &Job, submitted: Submitted<'_>) -> Result<Value, TaskError>;

    /// The run has the task's result, durably, or needs none: what was kept of it may go.
    fn acknowledge(&self, _job: &Job) {}

    /// Nobody waits for the task any more: what runs elsewhere on its behalf shall end.
    fn cancel(&self, _job: &Job) {}
}
