//! Subresources of a WorkflowRun: `history`, which is folded from what is kept, and `tasks`, where tokens are answered.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use http::{Response, StatusCode};
use jiff::Timestamp;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, Owner, OwnerVersion, Records, Scope, respond};
use minik8s_asl::definition::MachineType;
use minik8s_asl::engine::Execution;
use serde_json::{Map, Value, json};

use crate::answers::{self, Answer, Refused};
use crate::engine::RUNS;
use crate::journal::{Journal, Kept};
use crate::kinds::parse_definition;

/// Records, once the API server runs.
pub type LateRecords = Arc<OnceLock<Arc<dyn Records>>>;

/// How often an answer is tried again when the run changes meanwhile.
const TRIES: usize = 16;

/// `GET …/workflowruns/NAME/history`.
pub struct HistoryHandler(pub LateRecords);

/// `POST …/workflowruns/NAME/tasks`.
pub struct TasksHandler(pub LateRecords);

#[async_trait]
impl Handler for HistoryHandler {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        let (run, records) = match found(&self.0, &request, cluster).await {
            Ok(found) => found,
            Err(problem) => return problem,
        };
        let uid = run["metadata"]["uid"].as_str().unwrap_or_default();
        match Journal::open(records, uid).await {
            Ok(Some((_, kept))) => match history(kept) {
                Ok(history) => json(StatusCode::OK, &history),
                Err(cause) => failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &cause),
            },
            Ok(None) => failure(
                StatusCode::NOT_FOUND,
                "NotFound",
                &format!(
                    "nothing is kept of run {}: it has not begun, or its workflow is Express",
                    request.name
                ),
            ),
            Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string()),
        }
    }
}

#[async_trait]
impl Handler for TasksHandler {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        let answer: Answer = match serde_json::from_slice(&request.body) {
            Ok(answer) => answer,
            Err(error) => {
                let told = format!(
                    "the body must be {{\"token\", and one of \"output\", \"error\", \"heartbeat\"}}: {error}"
                );
                return failure(StatusCode::BAD_REQUEST, "BadRequest", &told);
            }
        };
        let mut refused = Refused::Overtaken;
        for _ in 0..TRIES {
            let (run, records) = match found(&self.0, &request, cluster).await {
                Ok(found) => found,
                Err(problem) => return problem,
            };
            let metadata = &run["metadata"];
            let revision =
                metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
            let object = Owner { resource: RUNS, namespace: &request.namespace, name: &request.name };
            let owner = OwnerVersion { object, revision };
            let uid = metadata["uid"].as_str().unwrap_or_default();
            match answers::accept(&records, owner, uid, answer.clone()).await {
                Ok(()) => {
                    return json(
                        StatusCode::CREATED,
                        &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                    );
                }
                Err(error) => refused = error,
            }
            if refused != Refused::Overtaken {
                break;
            }
        }
        let (code, reason) = match refused {
            // Which of the two it was is nobody's business who has no token.
            Refused::InvalidToken => (StatusCode::FORBIDDEN, "Forbidden"),
            Refused::TaskTimedOut => (StatusCode::GONE, "Gone"),
            Refused::InvalidOutput(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Refused::Overtaken => (StatusCode::CONFLICT, "Conflict"),
            Refused::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        };
        failure(code, reason, &refused.to_string())
    }
}

/// The run that is asked for, and where its records are.
async fn found(
    records: &LateRecords,
    request: &HandlerRequest,
    cluster: &dyn Objects,
) -> Result<(Value, Arc<dyn Records>), Response<Body>> {
    let unavailable = |cause: &str| failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", cause);
    let records = records.get().cloned().ok_or_else(|| unavailable("workflows do not run yet"))?;
    let scope = Scope { namespace: &request.namespace, name: Some(&request.name), now: Timestamp::now() };
    let runs = cluster.read(&RUNS, scope).await.map_err(|error| unavailable(&error.to_string()))?;
    let run = runs.into_iter().next().ok_or_else(|| {
        failure(
            StatusCode::NOT_FOUND,
            "NotFound",
            &format!("workflowruns.minik8s.io {:?} not found", request.name),
        )
    })?;
    Ok((run, records))
}

/// All that a run did, in AWS' shape, with the definition that it ran, the thread of each event, and the instances that
/// carried out tasks, by the id of the event that tells of their end.
pub fn history(kept: Kept) -> Result<Value, String> {
    let definition = parse_definition(&kept.beginning.definition, MachineType::Standard);
    let definition = definition.map_err(|_| "the definition can no longer be read".to_owned())?;
    let (mut execution, _) = Execution::start(Arc::new(definition), kept.beginning.start.clone());
    let mut events = execution.take_history();
    let mut instances = Map::new();
    for entry in &kept.events {
        execution.apply(&entry.event, entry.time);
        let new = execution.take_history();
        // What is told first is how the task ended.
        if let (Some(instance), Some(ended)) = (&entry.instance, new.first()) {
            instances.insert(ended.id.to_string(), json!(instance));
        }
        events.extend(new);
    }
    let threads: Vec<u64> = events.iter().map(|event| event.thread).collect();
    let events: Vec<Value> = events.iter().map(minik8s_asl::engine::HistoryEvent::to_aws).collect();
    Ok(json!({
        "definition": kept.beginning.definition, "input": kept.beginning.start.input, "events": events,
        "threads": threads, "instances": instances,
    }))
}

fn json(code: StatusCode, value: &Value) -> Response<Body> {
    respond(code, "application/json", value.to_string())
}

fn failure(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code.as_u16(),
    });
    json(code, &status)
}
