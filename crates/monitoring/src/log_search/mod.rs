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
use minik8s_api::{Body, Handler, HandlerRequest, LOGS_GROUP, Objects};
use serde_json::Value;

use crate::metrics_api::LateClient;
use crate::node_api::{Refusal, ask, client, not_found, read, respond_with};
use merge::Answers;
use question::Question;

/// Below it are all paths of the API.
pub const PATH: &str = "/apis/logs.minik8s.io/";

/// A node has this long: longer than its own limit.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Nodes that are asked at once.
const AT_ONCE: usize = 16;

pub struct LogSearch(pub LateClient);

#[async_trait]
impl Handler for LogSearch {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        respond_with(self.answer(&request, cluster).await)
    }
}

impl LogSearch {
    async fn answer(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<Value, Refusal> {
        if !is_search(&request.path, &request.namespace) {
            return Err(not_found());
        }
        if request.method != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "logs are read: GET them".to_owned()));
        }
        let wrong = |problem| (StatusCode::BAD_REQUEST, problem);
        let mut question = Question::parse(&request.query, Timestamp::now()).map_err(wrong)?;
        question.namespace = request.namespace.clone();
        question.not_before(began(cluster, &request.namespace).await?);
        let client = client(&self.0)?;
        let query = question.encoded();
        let asked = names(cluster).await?.into_iter().map(|node| {
            let query = &query;
            async move {
                let path = format!("/api/v1/nodes/{node}/proxy/logSearch?{query}");
                let answer = ask(client, Request::get(path), TIMEOUT).await;
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
