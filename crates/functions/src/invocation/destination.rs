//! Who is told how a call ended, and what. Runs of workflows are made through the subresource `destination`: which there are
//! is not watched here, and one that is there already was made for the same end.
//!
//! The handler takes nobody's word: it makes what the call and its function say, and only once the call has ended.

use async_trait::async_trait;
use http::{Response, StatusCode};
use jiff::Timestamp;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, ResourceRef, Scope, respond};
use minik8s_meta::destination::Destination;
use minik8s_meta::function::{Function, FunctionAsync};
use minik8s_meta::invocation::Invocation;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::warn;

use crate::calls::LateClient;
use crate::trigger::{Call, make_call, workflow_run};

/// The subresource that starts the run.
pub const DESTINATION: &str = "destination";
/// On calls that tell how others ended.
pub const TOLD: &str = "minik8s.io/destination";
const FUNCTIONS: ResourceRef<'_> = ResourceRef { group: "minik8s.io", version: "v1", plural: "functions" };
const INVOCATIONS: ResourceRef<'_> =
    ResourceRef { group: "minik8s.io", version: "v1", plural: "invocations" };

/// The name of what tells of an end: one for each.
pub fn told_name(name: &str, phase: &str) -> String {
    format!("{name}-{}", phase.to_lowercase())
}

/// Whom to tell of a call that has ended, with its phase. `usual` is what the function says. What is told is not told of
/// again, unless it says so itself: else two functions could call each other for ever.
pub fn destination(
    invocation: &Invocation,
    usual: Option<&FunctionAsync>,
) -> Option<(Destination, &'static str)> {
    let status = invocation.status.as_ref().filter(|_| invocation.has_ended())?;
    let labels = invocation.metadata.labels.as_ref();
    let is_told = labels.is_some_and(|labels| labels.contains_key(TOLD));
    let usual = usual.filter(|_| !is_told);
    let spec = &invocation.spec;
    let (own, usual, phase) = match status.phase.as_str() {
        "Failed" => (&spec.on_failure, usual.and_then(|usual| usual.on_failure.clone()), "Failed"),
        _ => (&spec.on_success, usual.and_then(|usual| usual.on_success.clone()), "Succeeded"),
    };
    Some((own.clone().or(usual)?, phase))
}

/// What is told.
pub fn message(invocation: &Invocation, phase: &str) -> Value {
    let (spec, status) = (&invocation.spec, invocation.status.clone().unwrap_or_default());
    json!({
        "function": spec.function,
        "payload": spec.payload,
        "invocation": invocation.metadata.name,
        "phase": phase,
        "attempts": status.attempts,
        "code": status.code,
        "result": status.result,
    })
}

/// The run that tells a workflow.
fn run(invocation: &Invocation, workflow: &str, phase: &str) -> Call {
    let name = invocation.metadata.name.as_deref().unwrap_or_default();
    let object = json!({
        "apiVersion": "minik8s.io/v1",
        "kind": "WorkflowRun",
        "metadata": {"name": told_name(name, phase), "namespace": invocation.metadata.namespace},
        "spec": {"workflow": workflow, "input": message(invocation, phase)},
    });
    Call { kind: workflow_run(), object }
}

pub struct DestinationHandler(pub LateClient);

#[async_trait]
impl Handler for DestinationHandler {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        let (code, message) = match self.tell(&request, cluster).await {
            Ok(()) => (StatusCode::OK, String::new()),
            Err(refused) => refused,
        };
        let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "message": message, "reason": reason,
            "status": if code.is_success() { "Success" } else { "Failure" }, "code": code.as_u16(),
        });
        respond(code, "application/json", status.to_string())
    }
}

impl DestinationHandler {
    async fn tell(
        &self,
        request: &HandlerRequest,
        cluster: &dyn Objects,
    ) -> Result<(), (StatusCode, String)> {
        let missing =
            || (StatusCode::NOT_FOUND, format!("invocations.minik8s.io {:?} not found", request.name));
        let namespace = &request.namespace;
        let found: Option<Invocation> = read(cluster, &INVOCATIONS, namespace, &request.name).await?;
        let invocation = found.ok_or_else(missing)?;
        let function: Option<Function> =
            read(cluster, &FUNCTIONS, namespace, &invocation.spec.function).await?;
        let usual = function.and_then(|function| function.spec.async_calls);
        let Some((Destination::Workflow(workflow), phase)) = destination(&invocation, usual.as_ref()) else {
            return Err((StatusCode::CONFLICT, "no workflow is to be told of this call".to_owned()));
        };
        let client = self.0.get();
        let client = client.ok_or_else(|| unavailable("this server is only starting".to_owned()))?;
        let told = || format!("cannot start a run of workflow {workflow}");
        match make_call(client, namespace, &run(&invocation, &workflow, phase)).await {
            // It would be refused the next time too: the call must not wait for it for ever.
            Err(kube::Error::Api(error)) if (400..500).contains(&error.code) && error.code != 429 => {
                warn!(namespace, invocation = request.name, %error, "{}", told());
                Ok(())
            }
            made => made.map_err(|error| unavailable(format!("{}: {error}", told()))),
        }
    }
}

async fn read<T: DeserializeOwned>(
    cluster: &dyn Objects,
    kind: &ResourceRef<'_>,
    namespace: &str,
    name: &str,
) -> Result<Option<T>, (StatusCode, String)> {
    let scope = Scope { namespace, name: Some(name), now: Timestamp::now() };
    let found = cluster.read(kind, scope).await.map_err(|error| unavailable(error.to_string()))?;
    Ok(found.into_iter().next().and_then(|object| serde_json::from_value(object).ok()))
}

fn unavailable(message: String) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, message)
}
