//! API aggregation: an extension API server of the test's own, as upstream's conformance test uses the sample one.

use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::{Value, json};

use crate::cluster::*;
use crate::https::HttpsServer;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAME: &str = "v1alpha1.wardle.example.com";
const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders";

/// An address of this machine that is not loopback, which the API server never dials; nothing is sent.
pub fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").expect("this test needs an address that is not loopback");
    socket.local_addr().unwrap().ip()
}

/// Keeps flunders, and remembers who asked.
#[derive(Clone, Default)]
struct Sample {
    flunders: Arc<Mutex<Vec<Value>>>,
    /// Method, user and groups of each request.
    asked: Arc<Mutex<Vec<(Method, String, String)>>>,
}

impl Sample {
    fn answer(&self, request: Request<Bytes>) -> Response<String> {
        let header = |name: &str| {
            let values = request.headers().get_all(name).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
        };
        assert!(!request.headers().contains_key("authorization"));
        let asker = (request.method().clone(), header("x-remote-user"), header("x-remote-group"));
        self.asked.lock().unwrap().push(asker);
        let (code, body) = match (request.method().clone(), request.uri().path()) {
            (Method::GET, "/apis/wardle.example.com/v1alpha1") => (
                200,
                json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1alpha1",
                "resources": [
                    {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                     "verbs": ["create", "delete", "get", "list"], "shortNames": ["fl"]},
                    {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["get"]},
                ]}),
            ),
            (Method::GET, "/openapi/v3/apis/wardle.example.com/v1alpha1") => {
                (200, json!({"openapi": "3.0.0", "info": {"title": "wardle"}}))
            }
            (Method::GET, "/openapi/v2") => (200, openapi_v2()),
            (Method::GET, FLUNDERS) => {
                let items = self.flunders.lock().unwrap().clone();
                (
                    200,
                    json!({"kind": "FlunderList", "apiVersion": "wardle.example.com/v1alpha1", "items": items}),
                )
            }
            (Method::POST, FLUNDERS) => {
                let flunder: Value = serde_json::from_slice(request.body()).unwrap();
                self.flunders.lock().unwrap().push(flunder.clone());
                (201, flunder)
            }
            (Method::DELETE, path) if path.starts_with(FLUNDERS) => {
                self.flunders.lock().unwrap().clear();
                (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            (_, path) => (404, json!({"kind": "Status", "message": path})),
        };
        let answer = Response::builder().status(code).header("content-type", "application/json");
        answer.body(body.to_string()).unwrap()
    }
}

/// Of its own kind, and of one that is another server's.
fn openapi_v2() -> Value {
    let schema = json!({"$ref": "#/definitions/wardle.Flunder"});
    let list = json!({"get": {"responses": {"200": {"description": "OK", "schema": schema}}}});
    let (own, foreign) = (format!("{FLUNDERS}/"), "/apis/apps/v1/deployments");
    let flunder = json!({"type": "object", "properties": {
        "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}});
    json!({"swagger": "2.0", "paths": {own: list, foreign: list}, "definitions": {
        "wardle.Flunder": flunder, "wardle.Unused": {}, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {}}})
}

/// The Service and its endpoint, which a controller would make of a pod.
async fn expose(admin: &Client, server: &HttpsServer) {
    let ports = json!([{"port": 7443, "targetPort": server.address.port()}]);
    let service = json!({"metadata": {"name": "sample-api"}, "spec": {"ports": ports}});
    admin.post("/api/v1/namespaces/default/services", service).await.ok();
    let slice = json!({
        "metadata": {"name": "sample-api-1", "labels": {"kubernetes.io/service-name": "sample-api"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": server.address.port(), "protocol": "TCP"}],
        "endpoints": [{"addresses": [server.address.ip().to_string()], "conditions": {"ready": true}}],
    });
    admin.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await.ok();
}

fn registered(server: &HttpsServer) -> Value {
    json!({"metadata": {"name": NAME}, "spec": {
        "service": {"namespace": "default", "name": "sample-api", "port": 7443},
        "group": "wardle.example.com", "version": "v1alpha1", "caBundle": STANDARD.encode(&server.ca),
        "groupPriorityMinimum": 2000, "versionPriority": 200}})
}

async fn condition(admin: &Client, status: &str) -> Value {
    let mut last = Value::Null;
    for _ in 0..3000 {
        last = admin.get(&format!("{SERVICES}/{NAME}/status")).await.ok()["status"]["conditions"][0].clone();
        if last["status"] == status {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the APIService never becomes {status}: {last}");
}

#[tokio::test]
async fn extension_server_answers_for_its_group() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let sample = Sample::default();
    let handler = sample.clone();
    let server =
        HttpsServer::start(own_address(), "sample-api.default.svc", move |r| handler.answer(r)).await;
    // Before anything else it reads whom it may believe.
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let mut found = admin.get(path).await;
    for _ in 0..3000 {
        if found.code == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        found = admin.get(path).await;
    }
    let configuration = found.ok()["data"].clone();
    assert_eq!(configuration["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    assert_eq!(configuration["requestheader-username-headers"], "[\"X-Remote-User\"]");
    assert!(configuration["client-ca-file"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    assert_ne!(configuration["client-ca-file"], configuration["requestheader-client-ca-file"]);
    server.trust(configuration["requestheader-client-ca-file"].as_str().unwrap());

    admin.post(SERVICES, registered(&server)).await.ok();
    let missing = condition(&admin, "False").await;
    assert_eq!(
        (&missing["reason"], &missing["message"]),
        (&json!("ServiceNotFound"), &json!("service/sample-api in \"default\" is not present"))
    );
    admin.get(FLUNDERS).await.refused(503, "ServiceUnavailable");
    expose(&admin, &server).await;
    let available = condition(&admin, "True").await;
    assert_eq!(
        (&available["reason"], &available["message"]),
        (&json!("Passed"), &json!("all checks passed"))
    );

    // Create, list and delete, in the name of who asks, whatever they claim to be.
    let flunder = json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": {"name": "f", "namespace": "default"}});
    let forging = admin
        .header("x-remote-user", "mallory")
        .header("x-remote-group", "wheel")
        .header("authorization", "Bearer x");
    let made = forging.post(FLUNDERS, flunder.clone()).await;
    assert_eq!(made.code, 201, "{}", made.text());
    assert_eq!(made.ok(), flunder);
    let asked = sample.asked.lock().unwrap().clone();
    let (_, user, groups) = asked.into_iter().find(|(method, ..)| method == Method::POST).unwrap();
    assert_eq!(user, "admin");
    assert!(groups.contains("system:masters") && !groups.contains("wheel"), "{groups}");
    assert_eq!(admin.get(FLUNDERS).await.ok()["items"].as_array().unwrap().len(), 1);
    // What they may do is decided here first.
    cluster.user("nobody", &[]).get(FLUNDERS).await.refused(403, "Forbidden");
    admin.delete(&format!("{FLUNDERS}/f")).await.ok();
    assert_eq!(admin.get(FLUNDERS).await.ok()["items"], json!([]));

    check_discovery(&admin).await;
    check_registration(&admin, &server).await;
}

async fn check_discovery(admin: &Client) {
    let groups = admin.get("/apis").await.ok();
    let found = |group: &&Value| group["name"] == "wardle.example.com";
    let group = groups["groups"].as_array().unwrap().iter().find(found).unwrap().clone();
    assert_eq!(group["preferredVersion"]["groupVersion"], "wardle.example.com/v1alpha1");
    let group = admin.get("/apis/wardle.example.com").await.ok();
    assert_eq!((&group["kind"], &group["versions"][0]["version"]), (&json!("APIGroup"), &json!("v1alpha1")));
    let resources = admin.get("/apis/wardle.example.com/v1alpha1").await.ok();
    assert_eq!(resources["resources"][0]["name"], "flunders");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = admin.accepting(accept).get("/apis").await.ok();
    let items = aggregated["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["metadata"]["name"] == "wardle.example.com").unwrap();
    assert_eq!(
        item["versions"][0],
        json!({"version": "v1alpha1", "freshness": "Current", "resources": [{
            "resource": "flunders", "scope": "Namespaced", "singularResource": "flunder", "shortNames": ["fl"],
            "verbs": ["create", "delete", "get", "list"],
            "responseKind": {"group": "wardle.example.com", "version": "v1alpha1", "kind": "Flunder"},
            "subresources": [{"subresource": "status", "verbs": ["get"],
                "responseKind": {"group": "wardle.example.com", "version": "v1alpha1", "kind": "Flunder"}}]}]})
    );
    let index = admin.get("/openapi/v3").await.ok();
    let url = index["paths"]["apis/wardle.example.com/v1alpha1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(admin.get(url).await.ok()["info"]["title"], "wardle");
    // The older form is one document of everything.
    let document: Value = serde_json::from_str(&admin.get("/openapi/v2").await.text_whole()).unwrap();
    let (definitions, paths) = (&document["definitions"], &document["paths"]);
    assert_eq!(definitions["wardle.Flunder"], openapi_v2()["definitions"]["wardle.Flunder"]);
    assert!(definitions["wardle.Unused"].is_null());
    assert!(definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"].is_object());
    assert!(paths[format!("{FLUNDERS}/")]["get"].is_object());
    assert!(paths["/apis/apps/v1/deployments"]["get"]["operationId"].is_string());
    let protobuf = admin.accepting(minik8s_api::openapi::V2_PROTOBUF).get("/openapi/v2").await;
    assert!(protobuf.text_whole().contains("wardle.Flunder"));
}

/// As upstream's test changes the APIService; and one that goes away is told of.
async fn check_registration(admin: &Client, server: &HttpsServer) {
    let path = format!("{SERVICES}/{NAME}");
    let patched = admin.patch(MERGE, &path, json!({"spec": {"versionPriority": 400}})).await.ok();
    assert_eq!(patched["spec"]["versionPriority"], 400);
    let mut status = admin.get(&format!("{path}/status")).await.ok()["status"].clone();
    let own =
        json!({"type": "StatusPatched", "status": "True", "reason": "E2E", "message": "Set by e2e test"});
    status["conditions"].as_array_mut().unwrap().push(own.clone());
    admin.patch(MERGE, &format!("{path}/status"), json!({"status": status})).await.ok();
    admin.delete("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/sample-api-1").await.ok();
    assert_eq!(condition(admin, "False").await["reason"], "MissingEndpoints");
    admin.get(FLUNDERS).await.refused(503, "ServiceUnavailable");
    let conditions = admin.get(&path).await.ok()["status"]["conditions"].clone();
    assert!(conditions.as_array().unwrap().iter().any(|one| one["type"] == "StatusPatched"), "{conditions}");
    admin.delete(&path).await.ok();
    for _ in 0..3000 {
        if admin.get("/apis/wardle.example.com").await.code == 404 {
            admin.get(FLUNDERS).await.refused(404, "NotFound");
            return check_own_groups(admin, server).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a group whose APIService is gone is still served");
}

/// What this server serves itself cannot be taken from it.
async fn check_own_groups(admin: &Client, server: &HttpsServer) {
    let mut hijack = registered(server);
    hijack["metadata"]["name"] = "v1.apps".into();
    (hijack["spec"]["group"], hijack["spec"]["version"]) = ("apps".into(), "v1".into());
    admin.post(SERVICES, hijack).await.ok();
    let listed = admin.get("/apis/apps/v1/namespaces/default/deployments").await.ok();
    assert_eq!(listed["kind"], "DeploymentList");
}
