//! `/apis/node.minik8s.io/v1/nodes/NODE/containers` and `/images`: what is on a node, asked of the node; DELETE of the second
//! removes images that nobody uses.
//!
//! An API of its own because `nodes/proxy` opens everything of a node, and because pages of the dashboard may not use what is
//! below `proxy`. Rights are RBAC's: `get` of `nodes/containers` and of `nodes/images`, and `delete` of `nodes/images`, all of
//! the group `node.minik8s.io`, for one node or for all. It decides nothing itself: which images are in use, the node knows.

use std::time::Duration;

use async_trait::async_trait;
use form_urlencoded::Serializer;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, ResourceRef, Scope, respond};
use serde_json::{Value, json};

use crate::metrics_api::LateClient;

/// Below it are all paths of the API.
pub const PATH: &str = "/apis/node.minik8s.io/";

/// A node asks every shim it has.
const TIMEOUT: Duration = Duration::from_secs(20);

pub struct NodeInventory(pub LateClient);

type Refusal = (StatusCode, String);

#[async_trait]
impl Handler for NodeInventory {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        match self.answer(&request, cluster).await {
            Ok(answer) => respond(StatusCode::OK, "application/json", answer.to_string()),
            Err((status, message)) => {
                let reason = status.canonical_reason().unwrap_or_default().replace(' ', "");
                let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": message, "reason": reason, "code": status.as_u16()});
                respond(status, "application/json", answer.to_string())
            }
        }
    }
}

impl NodeInventory {
    async fn answer(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<Value, Refusal> {
        let path = to_node(&request.method, &request.path, &request.query, &request.name)?;
        has_agent(cluster, &request.name).await?;
        let client = self.0.get().ok_or((StatusCode::SERVICE_UNAVAILABLE, "the server starts".to_owned()))?;
        let mut answer = ask(client, &request.method, &path).await?;
        answer["apiVersion"] = json!("node.minik8s.io/v1");
        answer["metadata"] = json!({"name": request.name});
        Ok(answer)
    }
}

/// Where the node is asked. The path says what was authorized, and nothing else: `node` is the one that was.
fn to_node(method: &Method, path: &str, query: &str, node: &str) -> Result<String, Refusal> {
    let what = path.strip_prefix(&format!("{PATH}v1/nodes/{node}/")).filter(|_| !node.is_empty());
    let known: &[&str] = match (what, method) {
        (Some("containers" | "images"), &Method::GET) => &[],
        (Some("images"), &Method::DELETE) => &["image", "all", "dryRun"],
        (Some("containers"), _) => {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "containers are read: GET them".to_owned()));
        }
        (Some("images"), _) => return Err((StatusCode::METHOD_NOT_ALLOWED, "GET or DELETE".to_owned())),
        _ => {
            let message = "the server could not find the requested resource";
            return Err((StatusCode::NOT_FOUND, message.to_owned()));
        }
    };
    let mut passed_on = Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        // To pass over a word would be to remove more than was meant.
        if !known.contains(&&*name) {
            return Err((StatusCode::BAD_REQUEST, format!("{name}: this takes [{}]", known.join(", "))));
        }
        passed_on.append_pair(&name, &value);
    }
    Ok(format!("/api/v1/nodes/{node}/proxy/{}?{}", what.unwrap_or_default(), passed_on.finish()))
}

/// Whoever cannot be reached is not asked: a client would try again and again.
async fn has_agent(cluster: &dyn Objects, name: &str) -> Result<(), Refusal> {
    let nodes = ResourceRef { group: "", version: "v1", plural: "nodes" };
    let found = cluster.read(&nodes, Scope { namespace: "", name: Some(name), now: Timestamp::now() }).await;
    let found = found.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let node = found.first().ok_or((StatusCode::NOT_FOUND, format!("nodes \"{name}\" not found")))?;
    let addresses = node["status"]["addresses"].as_array().map_or(0, Vec::len);
    match addresses {
        0 => Err((StatusCode::SERVICE_UNAVAILABLE, format!("node {name} has told no address yet"))),
        _ => Ok(()),
    }
}

async fn ask(client: &Client, method: &Method, path: &str) -> Result<Value, Refusal> {
    let request = Request::builder().method(method).uri(path).body(Vec::new());
    let request = request.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    match tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
            Err((code, status.message))
        }
        Ok(Err(error)) => Err((StatusCode::BAD_GATEWAY, error.to_string())),
        Err(_) => Err((StatusCode::GATEWAY_TIMEOUT, "the node does not answer in time".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_asked_for_what_was_authorized() {
        let check = |method: Method, url: &str, want: Result<&str, u16>| {
            let (path, query) = url.split_once('?').unwrap_or((url, ""));
            let found = to_node(&method, path, query, "n1").map_err(|(status, _)| status.as_u16());
            assert_eq!(found.as_deref(), want.as_ref().copied(), "{method} {url}");
        };
        let (get, delete) = (|| Method::GET, || Method::DELETE);
        let base = "/apis/node.minik8s.io/v1/nodes";
        check(get(), &format!("{base}/n1/containers"), Ok("/api/v1/nodes/n1/proxy/containers?"));
        check(get(), &format!("{base}/n1/images"), Ok("/api/v1/nodes/n1/proxy/images?"));
        let removed = "/api/v1/nodes/n1/proxy/images?image=a%2Fb%3A1&dryRun=All";
        check(delete(), &format!("{base}/n1/images?image=a/b:1&dryRun=All"), Ok(removed));
        check(delete(), &format!("{base}/n1/images?everything=true"), Err(400));
        check(get(), &format!("{base}/n1/images?all=true"), Err(400));
        check(delete(), &format!("{base}/n1/containers"), Err(405));
        check(Method::POST, &format!("{base}/n1/images"), Err(405));
        // Another node than the one that was authorized, and other paths of the node.
        check(get(), &format!("{base}/n2/images"), Err(404));
        check(get(), &format!("{base}/n1/pods"), Err(404));
        check(get(), &format!("{base}/n1/images/../exec"), Err(404));
        check(get(), &format!("{base}/n1"), Err(404));
        // A Role of a namespace cannot give what is the node's.
        check(get(), "/apis/node.minik8s.io/v1/namespaces/shop/nodes/n1/images", Err(404));
        assert!(to_node(&Method::GET, "/apis/node.minik8s.io/v1/nodes//images", "", "").is_err());
    }
}
