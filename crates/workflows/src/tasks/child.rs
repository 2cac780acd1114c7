//! `states:startExecution`: a run of another workflow in the same namespace, awaited or not.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use minik8s_asl::definition::Pattern;
use minik8s_meta::{api_version, kind};
use minik8s_runtime::{Cache, Caches, Key};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Job, Submitted, TaskError};
use crate::kinds::{Phase, WorkflowRun, WorkflowRunSpec};

/// An awaited run is looked at now and then although nothing was told.
const LOOK: Duration = Duration::from_secs(30);
const NAME: &str = "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID";

pub async fn run(
    client: &Client,
    seen: &Seen,
    pattern: Pattern,
    job: &Job,
    submitted: Submitted<'_>,
) -> Result<Value, TaskError> {
    let parameters = &job.request.parameters;
    let arn = parameters["StateMachineArn"].as_str().unwrap_or_default();
    let workflow = arn.rsplit(':').next().unwrap_or_default();
    if workflow.is_empty() {
        return Err(TaskError::new("States.Runtime", "startExecution: StateMachineArn is required"));
    }
    let mut input = parameters.get("Input").cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = input.as_object_mut() {
        fields.shift_remove(NAME);
    }
    let run = new_run(job, workflow, input, parameters["Name"].as_str(), pattern);
    let name = run.metadata.name.clone().unwrap_or_default();
    let runs: Api<WorkflowRun> = Api::namespaced(client.clone(), &job.context.namespace);
    let made = create(&runs, &run, job).await?;
    let started = describe(&made, arn);
    let Pattern::Sync { decoded } = pattern else { return Ok(started) };
    if !job.submitted {
        submitted(started);
    }
    let ended = seen.wait(&runs, &Key::new(job.context.namespace.as_str(), name)).await?;
    result(&ended, arn, decoded)
}

/// Ends the run that a task has made and nobody waits for any more.
pub async fn stop(client: Client, job: Job) {
    let runs: Api<WorkflowRun> = Api::namespaced(client, &job.context.namespace);
    let name = match job.request.parameters["Name"].as_str() {
        Some(name) => name.to_owned(),
        None => own_name(&job),
    };
    let cause = format!("{} waits for it no more", job.context.run);
    let patch = Patch::Merge(json!({"spec": {"stop": {"cause": cause}}}));
    // It may be over, or never have been made.
    if let Err(error) = runs.patch(&name, &PatchParams::default(), &patch).await {
        tracing::debug!(%error, run = name, "cannot stop a run");
    }
}

fn own_name(job: &Job) -> String {
    format!("{}-{}-{}", job.context.run, job.request.task, job.request.attempt)
}

/// The run's name follows from the task, so that asking again gives the same run.
pub fn new_run(job: &Job, workflow: &str, input: Value, name: Option<&str>, pattern: Pattern) -> WorkflowRun {
    let own = own_name(job);
    let owner = OwnerReference {
        api_version: api_version::<WorkflowRun>(),
        kind: kind::<WorkflowRun>(),
        name: job.context.run.clone(),
        uid: job.context.uid.clone(),
        ..OwnerReference::default()
    };
    WorkflowRun {
        api_version: api_version::<WorkflowRun>(),
        kind: kind::<WorkflowRun>(),
        metadata: ObjectMeta {
            name: Some(name.map_or(own, str::to_owned)),
            namespace: Some(job.context.namespace.clone()),
            annotations: Some([("workflows.minik8s.io/task".to_owned(), job.idempotency_key())].into()),
            // One that is awaited goes with who awaits it.
            owner_references: matches!(pattern, Pattern::Sync { .. }).then(|| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: WorkflowRunSpec {
            workflow: workflow.to_owned(),
            input: Some(input),
            ..WorkflowRunSpec::default()
        },
        status: None,
    }
}

/// Makes the run, or finds the one that this very task has made before.
pub async fn create(runs: &Api<WorkflowRun>, run: &WorkflowRun, job: &Job) -> Result<WorkflowRun, TaskError> {
    let failed =
        |error: kube::Error| TaskError::new("StepFunctions.AWSStepFunctionsException", error.to_string());
    match runs.create(&PostParams::default(), run).await {
        Ok(made) => Ok(made),
        Err(kube::Error::Api(refused)) if refused.code == 409 => {
            let name = run.metadata.name.clone().unwrap_or_default();
            let found = runs.get(&name).await.map_err(failed)?;
            let annotations = found.metadata.annotations.as_ref();
            let key = annotations.and_then(|all| all.get("workflows.minik8s.io/task"));
            match key == Some(&job.idempotency_key()) {
                true => Ok(found),
                false => {
                    let cause = format!("Execution Already Exists: '{name}'");
                    Err(TaskError::new("StepFunctions.ExecutionAlreadyExistsException", cause))
                }
            }
        }
        Err(error) => Err(failed(error)),
    }
}

/// Runs as the cache shows them, and a bell that rings when one is over or gone.
pub struct Seen {
    cache: Arc<Cache<WorkflowRun>>,
    ended: Arc<Notify>,
}

impl Seen {
    pub fn new(caches: &Caches) -> Self {
        let (cache, ended) = (caches.of::<WorkflowRun>(), Arc::new(Notify::new()));
        let bell = ended.clone();
        cache.listen(Box::new(move |_, new| {
            if new.is_none_or(|run| run.is_over()) {
                bell.notify_waiters();
            }
        }));
        Seen { cache, ended }
    }

    pub async fn wait(&self, runs: &Api<WorkflowRun>, key: &Key) -> Result<WorkflowRun, TaskError> {
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            // From here on the bell is heard.
            ended.as_mut().enable();
            match self.cache.get(key) {
                Some(run) if run.is_over() => return Ok((*run).clone()),
                Some(_) => {}
                // Gone, or not shown yet.
                None if runs.get_opt(&key.name).await.is_ok_and(|run| run.is_none()) => {
                    return Err(TaskError::new("States.TaskFailed", format!("the run {key} was deleted")));
                }
                None => {}
            }
            let _ = tokio::time::timeout(LOOK, ended).await;
        }
    }
}

fn describe(run: &WorkflowRun, arn: &str) -> Value {
    let (namespace, name) =
        (run.metadata.namespace.as_deref().unwrap_or(""), run.metadata.name.as_deref().unwrap_or(""));
    let machine = arn.rsplit(':').next().unwrap_or_default();
    let started =
        run.metadata.creation_timestamp.as_ref().map(|time| time.0.as_millisecond() as f64 / 1000.0);
    json!({
        "ExecutionArn": format!("arn:minik8s:states:local:{namespace}:execution:{machine}:{name}"),
        "StartDate": started,
        "SdkHttpMetadata": {"HttpStatusCode": 200},
    })
}

/// What `.sync` gives once the child is over.
fn result(run: &WorkflowRun, arn: &str, decoded: bool) -> Result<Value, TaskError> {
    let status = run.status.clone().unwrap_or_default();
    let phase = match status.phase {
        Some(Phase::Succeeded) => "SUCCEEDED",
        Some(Phase::TimedOut) => "TIMED_OUT",
        Some(Phase::Aborted) => "ABORTED",
        _ => "FAILED",
    };
    let text = |value: Value| if decoded { value } else { value.to_string().into() };
    let seconds = |time: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.map(|time| time.0.as_millisecond() as f64 / 1000.0)
    };
    let mut value = describe(run, arn);
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove("SdkHttpMetadata");
    }
    value["Input"] = text(run.spec.input.clone().unwrap_or_else(|| json!({})));
    value["InputDetails"] = json!({"Included": true});
    value["Name"] = run.metadata.name.clone().unwrap_or_default().into();
    value["StateMachineArn"] = arn.into();
    value["Status"] = phase.into();
    value["StartDate"] = json!(seconds(status.start_time));
    value["StopDate"] = json!(seconds(status.completion_time));
    if status.phase == Some(Phase::Succeeded) {
        value["Output"] = text(status.output.unwrap_or(Value::Null));
        value["OutputDetails"] = json!({"Included": true});
        return Ok(value);
    }
    if let Some(error) = status.error {
        value["Error"] = error.into();
    }
    if let Some(cause) = status.cause {
        value["Cause"] = cause.into();
    }
    Err(TaskError::new("States.TaskFailed", value.to_string()))
}
