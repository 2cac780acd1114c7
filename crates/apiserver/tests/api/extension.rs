//! What a feature adds: routes and subresources that it answers itself, for those who may.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use http::{Method, Response, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use minik8s_api::{
    Access, AdmissionError, AdmissionRequest, AdmissionRule, Body, Extension, Handler, HandlerRequest,
    Objects, Operation, Plain, Resource, ResourceRef, Route, Scope, respond, respond_lines,
};
use serde_json::json;

use crate::cluster::*;

/// Says what it was asked.
struct Echo;

#[async_trait]
impl Handler for Echo {
    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        let HandlerRequest { method, path, query, body, namespace, name, requester, .. } = request;
        let said = json!({
            "method": method.as_str(), "path": path, "query": query, "body": String::from_utf8_lossy(&body),
            "namespace": namespace, "name": name, "requester": requester.name,
        });
        respond(StatusCode::OK, "application/json", said.to_string())
    }
}

/// A line, and never its end where somebody wants to follow.
struct Tail;

#[async_trait]
impl Handler for Tail {
    fn streams(&self, query: &str) -> bool {
        query == "watch=true"
    }

    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        let line = json!({"type": "TOLD", "object": {"name": request.name}});
        let first = stream::iter([line.to_string()]);
        match self.streams(&request.query) {
            true => respond_lines(first.chain(stream::pending())),
            false => respond_lines(first),
        }
    }
}

/// Takes more than others, of what is put, and for as long as it likes.
struct Roomy;

#[async_trait]
impl Handler for Roomy {
    fn is_long_running(&self) -> bool {
        true
    }

    fn largest_body(&self, method: &Method, path: &str) -> Option<usize> {
        (method == Method::PUT && path.ends_with("/large")).then_some(4 << 20)
    }

    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        respond(StatusCode::OK, "application/json", json!({"bytes": request.body.len()}).to_string())
    }
}

/// New ConfigMaps say how many there are already, and no more than two are allowed.
struct AtMostTwo;

#[async_trait]
impl AdmissionRule for AtMostTwo {
    async fn admit(
        &self,
        cluster: &dyn Objects,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), AdmissionError> {
        if request.operation != Operation::Create || !request.is_core("configmaps") {
            return Ok(());
        }
        let resource = ResourceRef { group: "", version: "v1", plural: "configmaps" };
        let scope = Scope { namespace: request.namespace, name: None, now: request.now };
        let before = cluster.read(&resource, scope).await?.len();
        request.object["data"] = json!({"before": before.to_string()});
        if before < 2 { Ok(()) } else { Err(AdmissionError::Forbidden("two are enough".to_owned())) }
    }
}

#[tokio::test]
async fn admission_rule_of_a_feature_completes_and_refuses_objects() {
    let extension = Extension { admission: vec![Arc::new(AtMostTwo)], ..Extension::default() };
    let cluster = Cluster::with(Setup { extension, ..Setup::default() }).await;
    let admin = cluster.admin();
    admin.post("/api/v1/namespaces", json!({"metadata": {"name": "few"}})).await.ok();
    let path = "/api/v1/namespaces/few/configmaps";
    for (name, before) in [("a", "0"), ("b", "1")] {
        let made = admin.post(path, json!({"metadata": {"name": name}})).await.ok();
        assert_eq!(made["data"]["before"], before);
    }
    let refused = admin.post(path, json!({"metadata": {"name": "c"}})).await;
    let text = "configmaps \"c\" is forbidden: two are enough";
    assert_eq!(refused.refused(403, "Forbidden")["message"], text);
    admin.post("/api/v1/namespaces/few/secrets", json!({"metadata": {"name": "c"}})).await.ok();
}

async fn cluster() -> Cluster {
    let named = |kind: &str, plural: &str| Resource {
        group: "example.com".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        ..Resource::of::<ConfigMap>(Plain)
    };
    let gadgets = named("Gadget", "gadgets").handled("echo", "Gadget", &["create"], Echo);
    let gadgets = gadgets.handled("tail", "Gadget", &["get"], Tail);
    let route = |path, access| Route { path, access, handler: Arc::new(Echo) };
    let routes = vec![route("/open/", Access::Public), route("/closed", Access::Authorized)];
    let extension = Extension { kinds: vec![gadgets], routes, ..Extension::default() };
    Cluster::with(Setup { extension, ..Setup::default() }).await
}

#[tokio::test]
async fn route_is_answered_to_those_who_may() {
    let cluster = cluster().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let said = ann.post("/open/a/b?c=d", json!({"e": 1})).await.ok();
    let expected = json!({
        "method": "POST", "path": "/open/a/b", "query": "c=d", "body": "{\"e\":1}",
        // Nobody asked who it is.
        "namespace": "", "name": "", "requester": "system:anonymous",
    });
    assert_eq!(said, expected);
    ann.get("/closed").await.refused(403, "Forbidden");
    assert_eq!(admin.get("/closed").await.ok()["requester"], "admin");
    admin.get("/closed/below").await.refused(404, "NotFound");
    let paths = admin.get("/").await.ok();
    assert!(paths["paths"].as_array().unwrap().contains(&json!("/open/")), "{paths}");
}

#[tokio::test]
async fn body_beyond_the_bound_of_its_handler_is_refused() {
    let route = Route { path: "/roomy/", access: Access::Authenticated, handler: Arc::new(Roomy) };
    let extension = Extension { routes: vec![route], ..Extension::default() };
    let cluster = Cluster::with(Setup { extension, ..Setup::default() }).await;
    let admin = cluster.admin();
    let send = async |method: Method, path: &str, bytes: usize| {
        admin.send(method, path, "application/json", vec![b' '; bytes]).await
    };
    let (usual, own) = (3 << 20, 4 << 20);
    assert_eq!(send(Method::PUT, "/roomy/large", own).await.ok()["bytes"], own);
    assert_eq!(send(Method::POST, "/roomy/large", usual).await.ok()["bytes"], usual);
    for (method, path, bytes) in [
        (Method::PUT, "/roomy/large", own + 1),
        (Method::POST, "/roomy/large", usual + 1),
        (Method::PUT, "/roomy/small", usual + 1),
    ] {
        let refused = send(method, path, bytes).await;
        let told = refused.refused(413, "RequestEntityTooLarge");
        let limit = (bytes - 1).to_string();
        assert!(told["message"].as_str().unwrap().contains(&limit), "{told}");
    }
}

#[tokio::test]
async fn subresource_of_a_feature_is_answered_to_those_who_may() {
    let cluster = cluster().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let path = "/apis/example.com/v1/namespaces/default/gadgets/one/echo";
    let said = admin.post(path, json!({"x": 1})).await.ok();
    assert_eq!((&said["namespace"], &said["name"]), (&json!("default"), &json!("one")));
    admin.get(path).await.refused(405, "MethodNotAllowed");
    ann.post(path, json!({})).await.refused(403, "Forbidden");
    let listed = admin.get("/apis/example.com/v1").await.ok();
    let names: Vec<_> =
        listed["resources"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["gadgets", "gadgets/echo", "gadgets/tail"]);
}

#[tokio::test]
async fn stream_of_a_feature_is_told_to_those_who_may_as_it_comes() {
    let cluster = cluster().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let path = "/apis/example.com/v1/namespaces/default/gadgets/one/tail";
    assert_eq!(admin.get(path).await.ok()["object"]["name"], "one");
    let following = format!("{path}?watch=true");
    ann.get(&following).await.refused(403, "Forbidden");
    let mut stream = admin.watch(&following).await;
    assert_eq!(stream.expect("TOLD").await["name"], "one");
    stream.expect_nothing().await;
}

/// An API that is not of objects: what is below it is authorized as the resource that it reads as.
#[tokio::test]
async fn api_of_a_feature_is_answered_to_those_who_may() {
    let route = Route { path: "/apis/custom.example/", access: Access::Authorized, handler: Arc::new(Echo) };
    let extension = Extension { routes: vec![route], ..Extension::default() };
    let cluster = Cluster::with(Setup { extension, ..Setup::default() }).await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let path = "/apis/custom.example/v1beta1/namespaces/default/pods/one/hits";
    assert_eq!(admin.get(path).await.ok()["namespace"], "default");
    admin.get("/apis/custom.example/v1beta1").await.ok();
    ann.get(path).await.refused(403, "Forbidden");
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": ["custom.example"], "resources": ["pods/hits"], "verbs": ["get"]}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    admin.post(&format!("{rbac}/roles"), role).await.ok();
    let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    admin.post(&format!("{rbac}/rolebindings"), binding).await.ok();
    // Roles count once the authorizer has seen them.
    for _ in 0..3000 {
        if ann.get(path).await.code == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(ann.get(path).await.ok()["requester"], "ann");
    ann.get("/apis/custom.example/v1beta1/namespaces/other/pods/one/hits").await.refused(403, "Forbidden");
}

/// A chart may bring a definition of what is built in.
#[tokio::test]
async fn definition_of_a_built_in_kind_is_accepted_and_changes_nothing() {
    let cluster = cluster().await;
    let admin = cluster.admin();
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"data": {"type": "integer"}}}}});
    let definition = json!({"metadata": {"name": "gadgets.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}, "versions": [version]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin.post(definitions, definition).await.ok();
    let path = format!("{definitions}/gadgets.example.com");
    for _ in 0..3000 {
        let found = admin.get(&path).await.ok();
        if found["status"]["conditions"].to_string().contains("InitialNamesAccepted") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let gadget = json!({"metadata": {"name": "g"}, "data": {"a": "b"}});
    admin.post("/apis/example.com/v1/namespaces/default/gadgets", gadget).await.ok();
    let listed = admin.get("/apis/example.com/v1").await.ok();
    assert_eq!(listed["resources"].as_array().unwrap().len(), 3, "{listed}");
}
