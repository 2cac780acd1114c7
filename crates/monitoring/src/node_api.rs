//! What the APIs that are answered by nodes share: asking a node, reading objects, and refusing as Kubernetes does.
//!
//! Who may is decided before; nothing here asks again.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use minik8s_api::{Body, Objects, ResourceRef, Scope, respond};
use serde_json::{Value, json};

use crate::metrics_api::LateClient;

pub type Refusal = (StatusCode, String);

pub fn respond_with(answer: Result<Value, Refusal>) -> Response<Body> {
    match answer {
        Ok(answer) => respond(StatusCode::OK, "application/json", answer.to_string()),
        Err((status, message)) => {
            // `Bad Request` is `BadRequest` to clients.
            let reason = status.canonical_reason().unwrap_or_default().replace(' ', "");
            let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": reason, "code": status.as_u16()});
            respond(status, "application/json", answer.to_string())
        }
    }
}

pub fn not_found() -> Refusal {
    (StatusCode::NOT_FOUND, "the server could not find the requested resource".to_owned())
}

pub fn client(late: &LateClient) -> Result<&Client, Refusal> {
    late.get().ok_or((StatusCode::SERVICE_UNAVAILABLE, "the server starts".to_owned()))
}

/// What the node says, or why it says nothing.
pub async fn ask(
    client: &Client,
    request: http::request::Builder,
    timeout: Duration,
) -> Result<Value, Refusal> {
    let request: Request<Vec<u8>> =
        request.body(Vec::new()).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    match tokio::time::timeout(timeout, client.request::<Value>(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
            Err((code, status.message))
        }
        Ok(Err(error)) => Err((StatusCode::BAD_GATEWAY, error.to_string())),
        Err(_) => Err((StatusCode::GATEWAY_TIMEOUT, "the node does not answer in time".to_owned())),
    }
}

/// Objects of the core group that are in no namespace: all, or the one of that name.
pub async fn read(cluster: &dyn Objects, plural: &str, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let resource = ResourceRef { group: "", version: "v1", plural };
    let scope = Scope { namespace: "", name, now: Timestamp::now() };
    let read = cluster.read(&resource, scope).await;
    read.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{plural} cannot be read: {error}")))
}
