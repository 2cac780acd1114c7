//! One iteration of a distributed Map: a WorkflowRun of its own, that goes with the run whose Map it is.

use kube::{Api, Client};
use minik8s_asl::definition::Pattern;
use minik8s_asl::engine::Place;
use minik8s_runtime::Key;
use serde::Deserialize;
use serde_json::Value;

use super::child::{self, Seen};
use super::{Job, TaskError};
use crate::kinds::{Iteration, Phase, WorkflowRun};

#[derive(Deserialize)]
struct Parameters {
    place: Vec<Place>,
    index: i64,
    input: Value,
}

pub async fn run(client: &Client, seen: &Seen, job: &Job) -> Result<Value, TaskError> {
    let Parameters { place, index, input } = serde_json::from_value(job.request.parameters.clone())
        .map_err(|error| TaskError::new("States.Runtime", error.to_string()))?;
    let mut run = child::new_run(job, &job.context.workflow, input, None, Pattern::Sync { decoded: true });
    run.spec.iteration = Some(Iteration::new(&job.context.run, &place, index));
    let runs: Api<WorkflowRun> = Api::namespaced(client.clone(), &job.context.namespace);
    let made = child::create(&runs, &run, job).await?;
    let name = made.metadata.name.unwrap_or_default();
    let ended = seen.wait(&runs, &Key::new(job.context.namespace.as_str(), name)).await?;
    let status = ended.status.unwrap_or_default();
    match status.phase {
        Some(Phase::Succeeded) => Ok(status.output.unwrap_or_default()),
        phase => {
            let error = status.error.unwrap_or_else(|| match phase {
                Some(Phase::Aborted) => "Aborted".to_owned(),
                _ => "States.TaskFailed".to_owned(),
            });
            Err(TaskError { error, cause: status.cause })
        }
    }
}
