//! `/apis/mesh.minik8s.io/v1/namespaces/NAMESPACE/pods/POD/tap`: the requests of one pod, a line in JSON each, until the
//! client goes.
//!
//! Who may is decided before, by the right to `get` `pods/tap` of the group `mesh.minik8s.io` in that namespace. The pod's
//! node is asked; it tells of no pod but the one that was authorized.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::{AsyncBufReadExt, StreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use jiff::Timestamp;
use kube::Client;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, ResourceRef, Scope, respond};
use minik8s_meta::mesh::takes_inbound;
use serde_json::json;

use super::TapFilter;

/// Below it are all paths of the API.
pub const PATH: &str = "/apis/mesh.minik8s.io/";

/// Where requests of a pod are told.
pub fn path(namespace: &str, pod: &str) -> String {
    format!("{PATH}v1/namespaces/{namespace}/pods/{pod}/tap")
}

/// Known once the API server runs.
pub struct TapHandler(pub Arc<OnceLock<Client>>);

type Refusal = (StatusCode, String);

#[async_trait]
impl Handler for TapHandler {
    fn is_long_running(&self) -> bool {
        true
    }

    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        match self.open(&request, cluster).await {
            Ok(response) => response,
            Err((status, message)) => {
                let reason = status.canonical_reason().unwrap_or_default().replace(' ', "");
                let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": message, "reason": reason, "code": status.as_u16()});
                respond(status, "application/json", answer.to_string())
            }
        }
    }
}

impl TapHandler {
    async fn open(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<Response<Body>, Refusal> {
        let (namespace, name) = (&request.namespace, &request.name);
        // The path says what was authorized, and nothing else.
        if namespace.is_empty() || name.is_empty() || request.path != path(namespace, name) {
            let message = "the server could not find the requested resource".to_owned();
            return Err((StatusCode::NOT_FOUND, message));
        }
        if request.method != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "requests are looked at: GET them".to_owned()));
        }
        let bad = |problem| (StatusCode::BAD_REQUEST, problem);
        let filter = TapFilter::parse(&request.query).map_err(bad)?;
        filter.compile().map_err(bad)?;
        let node = node_of(cluster, namespace, name).await?;
        let client = self.0.get().ok_or((StatusCode::SERVICE_UNAVAILABLE, "the server starts".to_owned()))?;
        let uri = format!("/api/v1/nodes/{node}/proxy/meshTap/{namespace}/{name}?{}", filter.query());
        let asked = Request::get(uri).body(Vec::new());
        let asked = asked.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let lines = client.request_stream(asked).await.map_err(|error| match error {
            kube::Error::Api(status) => {
                (StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY), status.message)
            }
            other => (StatusCode::BAD_GATEWAY, format!("node {node} does not tell: {other}")),
        })?;
        // What breaks off ends: whoever wants to go on asks again.
        let lines = lines.lines().take_while(|line| std::future::ready(line.is_ok())).filter_map(|line| {
            let frame = line.ok().map(|line| Ok(Frame::data(Bytes::from(line + "\n"))));
            std::future::ready(frame)
        });
        let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
        let kind = http::HeaderValue::from_static("application/json;stream=lines");
        response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        Ok(response)
    }
}

async fn node_of(cluster: &dyn Objects, namespace: &str, name: &str) -> Result<String, Refusal> {
    let pods = ResourceRef { group: "", version: "v1", plural: "pods" };
    let scope = Scope { namespace, name: Some(name), now: Timestamp::now() };
    let found = cluster.read(&pods, scope).await;
    let found = found.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let missing = || (StatusCode::NOT_FOUND, format!("pods \"{name}\" not found"));
    let pod = found.into_iter().next().ok_or_else(missing)?;
    let spec = serde_json::from_value(pod["spec"].clone());
    let spec = spec.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    if !takes_inbound(&spec) {
        return Err((StatusCode::BAD_REQUEST, format!("pod {name} has no proxy of the mesh")));
    }
    let waiting = || (StatusCode::BAD_REQUEST, format!("pod {name} does not have a host assigned"));
    spec.node_name.filter(|node| !node.is_empty()).ok_or_else(waiting)
}

#[cfg(test)]
mod tests {
    use minik8s_api::{ReadError, Stored};
    use serde_json::Value;

    use super::*;

    /// One pod with a proxy, one without, one without a node.
    struct Cluster;

    #[async_trait]
    impl Objects for Cluster {
        async fn stored(&self, _: &ResourceRef<'_>) -> Result<Stored, ReadError> {
            Err(ReadError("nothing is stored".to_owned()))
        }

        async fn read(&self, _: &ResourceRef<'_>, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
            let proxy = json!([{"name": "minik8s-proxy", "image": minik8s_meta::mesh::SIDECAR_IMAGE,
                "env": [{"name": minik8s_meta::mesh::INBOUND_ENV, "value": "1"}]}]);
            let pod = |init: Value, node: &str| json!({"spec": {"nodeName": node, "containers": [], "initContainers": init}});
            Ok(match scope.name {
                Some("web") if scope.namespace == "shop" => vec![pod(proxy, "n1")],
                Some("plain") => vec![pod(json!([]), "n1")],
                Some("new") => vec![pod(proxy, "")],
                _ => Vec::new(),
            })
        }
    }

    #[tokio::test]
    async fn only_the_authorized_pod_is_asked_for() {
        let handler = TapHandler(Arc::default());
        let check = async |(namespace, name, path): (&str, &str, &str), query: &str, expected: u16| {
            let request = HandlerRequest {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
                ..HandlerRequest::default()
            };
            assert_eq!(handler.handle(request, &Cluster).await.status().as_u16(), expected, "{path}?{query}");
        };
        let web = path("shop", "web");
        check(("shop", "web", &web), "", 503).await;
        check(("shop", "web", &web), "status=5xx&path=%5E%2F", 503).await;
        check(("shop", "web", &web), "status=x", 400).await;
        check(("bank", "web", &web), "", 404).await;
        check(("shop", "web", &format!("{web}/more")), "", 404).await;
        check(("shop", "", "/apis/mesh.minik8s.io/v1/namespaces/shop/pods"), "", 404).await;
        check(("", "", "/apis/mesh.minik8s.io/v1"), "", 404).await;
        check(("bank", "web", &path("bank", "web")), "", 404).await;
        check(("shop", "plain", &path("shop", "plain")), "", 400).await;
        check(("shop", "new", &path("shop", "new")), "", 400).await;
    }
}
