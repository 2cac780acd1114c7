//! One run from the API's point of view: where it begins, what is asked of it, and what its status says.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::Client;
use kube::api::PostParams;
use minik8s_api::{Owner, OwnerVersion, Records, ResourceRef};
use minik8s_asl::definition::{Definition, MachineType, processor_at};
use minik8s_asl::engine::{Event, Identity, Start, Status};
use minik8s_asl::simple_form;
use minik8s_meta::{Backoff, api_version, kind};
use minik8s_runtime::{Cache, Key, panic_message};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::drive::{Drive, Means};
use crate::answers;
use crate::journal::{Beginning, Journal, JournalError};
use crate::kinds::{Iteration, Phase, Workflow, WorkflowRun, WorkflowRunStatus, parse_definition};
use crate::tasks::TaskContext;

/// A run that is shorter is never shown as Running: that saves a write for most.
const QUIET: Duration = Duration::from_millis(200);
/// The status of a run that goes on is written so often at most.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
const RETRY: Backoff = Backoff::millis(50, 5_000);
const AFTER_PANIC: Duration = Duration::from_secs(30);
/// AWS' limit of Express.
const LONGEST_EXPRESS: u64 = 300;

pub const RUNS: ResourceRef<'static> =
    ResourceRef { group: "minik8s.io", version: "v1", plural: "workflowruns" };

/// How the work on a run ended.
pub enum Ended {
    /// It is over and its status says so.
    Settled { redrives: i64 },
    /// It was deleted.
    Gone,
    /// Its history was written by somebody else, or could not be written: look again.
    Overtaken,
}

/// A run whose work panics goes on from its history after a pause: else it would stand still for as long as this server leads.
pub async fn outlive_panic(work: impl Future<Output = Ended>, run: &Key) -> Ended {
    let message = match AssertUnwindSafe(work).catch_unwind().await {
        Ok(ended) => return ended,
        Err(panic) => panic_message(&*panic),
    };
    tracing::error!(%run, panic = message, "work on a run has panicked; it goes on in {AFTER_PANIC:?}");
    tokio::time::sleep(AFTER_PANIC).await;
    Ended::Overtaken
}

pub struct Runner {
    pub client: Client,
    pub records: Arc<dyn Records>,
    pub means: Means,
    pub cache: Arc<Cache<WorkflowRun>>,
    pub key: Key,
    pub uid: String,
    /// The object may have changed.
    pub changed: Arc<Notify>,
}

/// A definition that may run, with its hash.
struct Ready {
    drive: Drive,
    hash: String,
}

impl Runner {
    pub async fn run(self) -> Ended {
        let mut retries = RETRY.retries();
        loop {
            let Some(run) = self.object() else { return Ended::Gone };
            match self.drive(&run).await {
                Ok(ended) => return ended,
                Err(JournalError::Overtaken) => {
                    // Somebody else was faster, or has deleted the run: look again with fresh eyes.
                    tokio::time::sleep(RETRY.first).await;
                    return Ended::Overtaken;
                }
                Err(error @ JournalError::Unreadable(_)) => {
                    return self.fail(&run, "States.Runtime", &error.to_string()).await;
                }
                Err(error @ JournalError::Store(_)) => {
                    tracing::warn!(run = %self.key, %error, "cannot keep the history; trying again");
                    tokio::time::sleep(retries.failed()).await;
                }
            }
        }
    }

    /// The run as last seen, if it is still the same.
    fn object(&self) -> Option<Arc<WorkflowRun>> {
        self.cache.get(&self.key).filter(|run| run.metadata.uid.as_deref() == Some(self.uid.as_str()))
    }

    async fn drive(&self, run: &WorkflowRun) -> Result<Ended, JournalError> {
        let Ready { mut drive, hash } = match self.ready(run).await? {
            Ok(ready) => ready,
            Err((error, cause)) => return Ok(self.fail(run, &error, &cause).await),
        };
        let mut write_at = Some(Instant::now() + QUIET);
        self.asked(&mut drive).await?;
        while !drive.is_over() {
            let due = async {
                match write_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = drive.next_event() => {
                    drive.take(event, Vec::new()).await?;
                    write_at = write_at.or(Some(Instant::now() + STATUS_INTERVAL));
                }
                () = self.changed.notified() => {
                    if self.object().is_none() {
                        return Ok(Ended::Gone);
                    }
                    self.asked(&mut drive).await?;
                }
                () = due => {
                    write_at = None;
                    // What matters is written in the end, and again until it is there.
                    if let Err(error) = self.write(&status(&drive, &hash)).await {
                        tracing::debug!(run = %self.key, %error, "cannot write the status");
                    }
                }
            }
        }
        Ok(self.settle(&status(&drive, &hash)).await)
    }

    /// The run as it was kept, or a new one.
    async fn ready(&self, run: &WorkflowRun) -> Result<Result<Ready, (String, String)>, JournalError> {
        let context = TaskContext {
            namespace: self.key.namespace.clone(),
            run: self.key.name.clone(),
            uid: self.uid.clone(),
            workflow: run.spec.workflow.clone(),
        };
        if let Some((journal, kept)) = Journal::open(self.records.clone(), &self.uid).await? {
            let hash = hash_of(&kept.beginning.definition);
            let definition = match parse(&kept.beginning.definition, MachineType::Standard) {
                Ok(definition) => definition,
                Err(problem) => return Ok(Err(problem)),
            };
            let drive = Drive::resume(self.means.clone(), context, definition, journal, kept);
            return Ok(Ok(Ready { drive, hash }));
        }
        if let Some(iteration) = &run.spec.iteration {
            return match self.processor(iteration).await? {
                Ok((definition, machine)) => self.begin(run, definition, machine, context).await,
                Err(cause) => Ok(Err(("States.Runtime".to_owned(), cause))),
            };
        }
        let workflows: Api<Workflow> = Api::namespaced(self.client.clone(), &self.key.namespace);
        let mut retries = RETRY.retries();
        let workflow = loop {
            match workflows.get_opt(&run.spec.workflow).await {
                Ok(Some(workflow)) => break workflow,
                Ok(None) => {
                    let (name, namespace) = (&run.spec.workflow, &self.key.namespace);
                    let cause = format!("there is no Workflow {name} in namespace {namespace}");
                    return Ok(Err(("StateMachineDoesNotExist".to_owned(), cause)));
                }
                Err(error) => {
                    tracing::warn!(run = %self.key, %error, "cannot read its Workflow; trying again");
                    tokio::time::sleep(retries.failed()).await;
                }
            }
        };
        let definition = match &workflow.spec.definition {
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
            value => value.clone(),
        };
        self.begin(run, definition, workflow.spec.workflow_type.into(), context).await
    }

    /// What an iteration of a distributed Map runs: a part of the definition that the run of the Map began with.
    async fn processor(
        &self,
        iteration: &Iteration,
    ) -> Result<Result<(Value, MachineType), String>, JournalError> {
        let parent = self.cache.get(&Key::new(self.key.namespace.as_str(), iteration.run.as_str()));
        let Some(uid) = parent.and_then(|parent| parent.metadata.uid.clone()) else {
            return Ok(Err(format!("the run {} whose Map this is an iteration of is gone", iteration.run)));
        };
        let kept = Journal::open(self.records.clone(), &uid).await?;
        let found = kept.and_then(|(_, kept)| processor_at(&kept.beginning.definition, &iteration.place()));
        Ok(found.ok_or_else(|| {
            format!("the run {} has no Map {}, or has not begun", iteration.run, iteration.map.join(", "))
        }))
    }

    async fn begin(
        &self,
        run: &WorkflowRun,
        definition: Value,
        machine: MachineType,
        context: TaskContext,
    ) -> Result<Result<Ready, (String, String)>, JournalError> {
        let mut parsed = match parse(&definition, machine) {
            Ok(parsed) => parsed,
            Err(problem) => return Ok(Err(problem)),
        };
        let express = machine == MachineType::Express;
        if express {
            parsed.timeout_seconds =
                Some(parsed.timeout_seconds.unwrap_or(LONGEST_EXPRESS).min(LONGEST_EXPRESS));
        }
        let given = run.spec.input.clone().or_else(|| simple_form::default_input(&definition).cloned());
        let start = Start {
            identity: self.identity(&run.spec.workflow, !express),
            input: given.unwrap_or_else(|| json!({})),
            time: (self.means.clock)(),
            seed: uuid::Uuid::new_v4().as_u64_pair().0,
        };
        let hash = hash_of(&definition);
        let revision =
            run.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
        let object = Owner { resource: RUNS, namespace: &self.key.namespace, name: &self.key.name };
        let owner = OwnerVersion { object, revision };
        let keep = (!express).then(|| (self.records.clone(), owner));
        let beginning = Beginning { definition, start };
        let drive = Drive::begin(self.means.clone(), context, parsed, beginning, keep).await?;
        Ok(Ok(Ready { drive, hash }))
    }

    fn identity(&self, name: &str, map_runs: bool) -> Identity {
        let (namespace, run) = (&self.key.namespace, &self.key.name);
        Identity {
            execution_id: format!("arn:minik8s:states:local:{namespace}:execution:{name}:{run}"),
            execution_name: run.clone(),
            machine_id: format!("arn:minik8s:states:local:{namespace}:stateMachine:{name}"),
            machine_name: name.to_owned(),
            role_arn: format!("arn:minik8s:iam::{namespace}:role/workflows"),
            token_key: uuid::Uuid::new_v4().simple().to_string(),
            map_runs,
        }
    }

    /// Does what the object asks for: to stop, to go on, to take answers in.
    async fn asked(&self, drive: &mut Drive) -> Result<(), JournalError> {
        let Some(run) = self.object() else { return Ok(()) };
        let wanted = run.spec.redrives.unwrap_or(0);
        if drive.is_over() && i64::try_from(drive.redrives()).unwrap_or(i64::MAX) < wanted {
            drive.take(Event::Redriven, Vec::new()).await?;
        }
        if let Some(stop) = run.spec.stop.as_ref().filter(|_| !drive.is_over()) {
            let (error, cause) = (stop.error.clone(), stop.cause.clone());
            return drive.take(Event::Stopped { error, cause }, Vec::new()).await;
        }
        let annotations = run.metadata.annotations.as_ref();
        if annotations.is_none_or(|annotations| !annotations.contains_key(answers::ANNOTATION)) {
            return Ok(());
        }
        for (record, event) in answers::waiting(&*self.records, &self.uid).await? {
            if drive.is_over() {
                break;
            }
            if drive.awaits(&event) {
                drive.take(event, vec![record]).await?;
            }
        }
        Ok(())
    }

    async fn write(&self, status: &WorkflowRunStatus) -> kube::Result<()> {
        let runs: Api<WorkflowRun> = Api::namespaced(self.client.clone(), &self.key.namespace);
        // Whole: a patch would take every null out of the output.
        let run = WorkflowRun {
            api_version: api_version::<WorkflowRun>(),
            kind: kind::<WorkflowRun>(),
            metadata: ObjectMeta {
                name: Some(self.key.name.clone()),
                namespace: Some(self.key.namespace.clone()),
                uid: Some(self.uid.clone()),
                ..ObjectMeta::default()
            },
            spec: self.object().map(|run| run.spec.clone()).unwrap_or_default(),
            status: Some(status.clone()),
        };
        runs.replace_status(&self.key.name, &PostParams::default(), &run).await.map(drop)
    }

    /// Writes the last status until it is there.
    async fn settle(&self, status: &WorkflowRunStatus) -> Ended {
        let redrives = status.redrives.unwrap_or(0);
        let mut retries = RETRY.retries();
        loop {
            match self.write(status).await {
                Ok(()) => return Ended::Settled { redrives },
                Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => return Ended::Gone,
                Err(error) => {
                    tracing::warn!(run = %self.key, %error, "cannot write the status; trying again");
                    tokio::time::sleep(retries.failed()).await;
                }
            }
        }
    }

    /// A run that could not even begin.
    async fn fail(&self, run: &WorkflowRun, error: &str, cause: &str) -> Ended {
        let now = time((self.means.clock)());
        self.settle(&WorkflowRunStatus {
            phase: Some(Phase::Failed),
            error: Some(error.to_owned()),
            cause: Some(cause.to_owned()),
            start_time: now.clone(),
            completion_time: now,
            redrives: run.spec.redrives,
            ..WorkflowRunStatus::default()
        })
        .await
    }
}

fn parse(definition: &Value, machine: MachineType) -> Result<Definition, (String, String)> {
    parse_definition(definition, machine).map_err(|problems| {
        let cause = problems.first().map(|problem| format!("{} at {}", problem.message, problem.pointer));
        ("InvalidDefinition".to_owned(), cause.unwrap_or_default())
    })
}

fn hash_of(definition: &Value) -> String {
    Sha256::digest(definition.to_string().as_bytes())
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What the object says of a run. Pure.
fn status(drive: &Drive, hash: &str) -> WorkflowRunStatus {
    let (phase, output, error, cause) = match drive.status().clone() {
        Status::Running => (Phase::Running, None, None, None),
        Status::Succeeded { output } => (Phase::Succeeded, Some(output), None, None),
        Status::Failed { error, cause } => (Phase::Failed, None, error, cause),
        Status::TimedOut => (Phase::TimedOut, None, Some("States.Timeout".to_owned()), None),
        Status::Aborted { error, cause } => (Phase::Aborted, None, error, cause),
    };
    WorkflowRunStatus {
        phase: Some(phase),
        definition_hash: Some(hash.to_owned()),
        current_states: if phase.is_over() { Vec::new() } else { drive.current_states() },
        output,
        error,
        cause,
        start_time: time(drive.start_time()),
        completion_time: if phase.is_over() { time(drive.now()) } else { None },
        events: i64::try_from(drive.history_events).ok(),
        history_bytes: drive
            .history_bytes()
            .filter(|_| phase.is_over())
            .and_then(|bytes| i64::try_from(bytes).ok()),
        redrives: i64::try_from(drive.redrives()).ok().filter(|&count| count > 0),
        cold_starts: i64::try_from(drive.cold_starts).ok().filter(|&count| count > 0),
    }
}

fn time(milliseconds: i64) -> Option<Time> {
    k8s_openapi::jiff::Timestamp::from_millisecond(milliseconds).ok().map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn run_whose_work_panics_goes_on_after_a_pause() {
        let (run, begun) = (Key::new("ns", "r"), Instant::now());
        let faulty = || -> Ended { std::panic::resume_unwind(Box::new("a fault in a task")) };
        let ended = outlive_panic(async move { faulty() }, &run).await;
        assert!(matches!(ended, Ended::Overtaken));
        assert_eq!(begun.elapsed(), AFTER_PANIC);
        assert!(matches!(outlive_panic(async { Ended::Gone }, &run).await, Ended::Gone));
    }
}
