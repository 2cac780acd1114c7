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
use minik8s_api::{Body, Handler, HandlerRequest, Objects};
use serde_json::{Value, json};

use crate::metrics_api::LateClient;
use crate::node_api::{Refusal, ask, client, not_found, read, respond_with};

/// Below it are all paths of the API.
pub const PATH: &str = "/apis/node.minik8s.io/";

/// A node asks every shim it has.
const TIMEOUT: Duration = Duration::from_secs(20);

pub struct NodeInventory(pub LateClient);

#[async_trait]
impl Handler for NodeInventory {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        respond_with(self.answer(&request, cluster).await)
    }
}

impl NodeInventory {
    async fn answer(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<Value, Refusal> {
        let path = to_node(&request.method, &request.path, &request.query, &request.name)?;
        has_agent(cluster, &request.name).await?;
        let to_node = Request::builder().method(&request.method).uri(path);
        let mut answer = ask(client(&self.0)?, to_node, TIMEOUT).await?;
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
        _ => return Err(not_found()),
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
    let found = read(cluster, "nodes", Some(name)).await?;
    let node = found.first().ok_or((StatusCode::NOT_FOUND, format!("nodes \"{name}\" not found")))?;
    let addresses = node["status"]["addresses"].as_array().map_or(0, Vec::len);
    match addresses {
        0 => Err((StatusCode::SERVICE_UNAVAILABLE, format!("node {name} has told no address yet"))),
        _ => Ok(()),
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
