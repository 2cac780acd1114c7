//! `/apis/logs.minik8s.io/v1[/namespaces/NAMESPACE]/logs`: lines of the logs of many pods, also of those that are gone, found
//! by the nodes that have them and merged by time.
//!
//! Who may is decided before, by the right to `get` `pods/log` of that namespace, or of all. Of pods that are gone, only
//! those of this namespace are told, not those of one that had its name before.

mod merge;
mod question;

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use minik8s_api::{Body, Handler, HandlerRequest, LOGS_GROUP, Objects, ResourceRef, Scope, respond};
use serde_json::{Value, json};

use crate::metrics_api::LateClient;
use merge::Answers;
use question::Question;

/// Below it are all paths of the API.
pub const PATH: &str = "/apis/logs.minik8s.io/";

/// A node has this long: longer than its own limit.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Nodes that are asked at once.
const AT_ONCE: usize = 16;

pub struct LogSearch(pub LateClient);

type Refusal = (StatusCode, String);

#[async_trait]
impl Handler for LogSearch {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        match self.answer(&request, cluster).await {
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
}

impl LogSearch {
    async fn answer(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<Value, Refusal> {
        if !is_search(&request.path, &request.namespace) {
            return Err((
                StatusCode::NOT_FOUND,
                "the server could not find the requested resource".to_owned(),
            ));
        }
        if request.method != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "logs are read: GET them".to_owned()));
        }
        let wrong = |problem| (StatusCode::BAD_REQUEST, problem);
        let mut question = Question::parse(&request.query, Timestamp::now()).map_err(wrong)?;
        question.namespace = request.namespace.clone();
        question.not_before(began(cluster, &request.namespace).await?);
        let client = self.0.get().ok_or((StatusCode::SERVICE_UNAVAILABLE, "the server starts".to_owned()))?;
        let query = question.encoded();
        let asked = names(cluster).await?.into_iter().map(|node| {
            let query = &query;
            async move {
                let answer = ask(client, &node, query).await;
                (node, answer)
            }
        });
        let mut answers = Answers::new(question.limit);
        let mut each = futures::stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some((node, answer)) = each.next().await {
            answers.add(node, answer)?;
        }
        Ok(answers.finish())
    }
}

/// The path says what was authorized, and nothing else: its namespace is the one that was.
fn is_search(path: &str, namespace: &str) -> bool {
    match namespace {
        "" => path == format!("/apis/{LOGS_GROUP}/v1/logs"),
        namespace => path == format!("/apis/{LOGS_GROUP}/v1/namespaces/{namespace}/logs"),
    }
}

async fn ask(client: &Client, node: &str, query: &str) -> Result<Value, Refusal> {
    let request = Request::get(format!("/api/v1/nodes/{node}/proxy/logSearch?{query}")).body(Vec::new());
    let request = request.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    match tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(kube::Error::Api(status))) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
            Err((code, status.message))
        }
        Ok(Err(error)) => Err((StatusCode::BAD_GATEWAY, error.to_string())),
        Err(_) => Err((StatusCode::GATEWAY_TIMEOUT, "no answer in time".to_owned())),
    }
}

async fn names(cluster: &dyn Objects) -> Result<Vec<String>, Refusal> {
    let nodes = read(cluster, "nodes", None).await?;
    Ok(nodes.iter().filter_map(|node| Some(node["metadata"]["name"].as_str()?.to_owned())).collect())
}

/// When a namespace was made. One that is gone can only be asked for by those who see all of them.
async fn began(cluster: &dyn Objects, namespace: &str) -> Result<Option<Timestamp>, Refusal> {
    if namespace.is_empty() {
        return Ok(None);
    }
    let found = read(cluster, "namespaces", Some(namespace)).await?;
    Ok(found.first().and_then(|found| found["metadata"]["creationTimestamp"].as_str()?.parse().ok()))
}

async fn read(cluster: &dyn Objects, plural: &str, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let resource = ResourceRef { group: "", version: "v1", plural };
    let scope = Scope { namespace: "", name, now: Timestamp::now() };
    let read = cluster.read(&resource, scope).await;
    read.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{plural} cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_that_which_was_authorized() {
        let check =
            |path: &str, namespace: &str, want: bool| assert_eq!(is_search(path, namespace), want, "{path}");
        check("/apis/logs.minik8s.io/v1/logs", "", true);
        check("/apis/logs.minik8s.io/v1/namespaces/shop/logs", "shop", true);
        check("/apis/logs.minik8s.io/v1/namespaces/shop/logs/x", "shop", false);
        check("/apis/logs.minik8s.io/v1/namespaces/bank/logs", "shop", false);
        check("/apis/logs.minik8s.io/v1/namespaces/shop/logs", "", false);
        check("/apis/logs.minik8s.io/v1", "", false);
    }
}
