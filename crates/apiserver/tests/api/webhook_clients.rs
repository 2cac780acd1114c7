//! Where admission webhooks are and what they are asked about: behind a Service, in an older version, by scope.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use crate::aggregation::own_address;
use crate::cluster::*;
use crate::https::HttpsServer;
use crate::webhooks::{VALIDATING, Webhook, in_force};

/// Allows everything and warns of where it was asked.
fn allow(request: Request<Bytes>) -> Response<String> {
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let warning = format!("asked at {}", request.uri().path());
    let response = json!({"uid": review["request"]["uid"], "allowed": true, "warnings": [warning]});
    let answer = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response});
    Response::new(answer.to_string())
}

/// As webhooks of v1beta1 could answer: nothing of the question is repeated.
fn allow_barely(request: Request<Bytes>) -> Response<String> {
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let warning = format!("asked in {}", review["apiVersion"].as_str().unwrap());
    Response::new(json!({"response": {"allowed": true, "warnings": [warning]}}).to_string())
}

/// A Service with an endpoint, which a controller would make of a pod.
async fn expose(admin: &Client, name: &str, server: &HttpsServer) {
    let port = server.address.port();
    let service =
        json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 8443, "targetPort": port}]}});
    admin.post("/api/v1/namespaces/default/services", service).await.ok();
    let slice = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [server.address.ip().to_string()], "conditions": {"ready": true}}],
    });
    admin.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await.ok();
}

fn configured(name: &str, client: Value, versions: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "webhooks": [{
        "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": versions,
        "clientConfig": client,
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    }]})
}

fn warned(answer: &Answer, text: &str) -> bool {
    answer.warnings().iter().any(|warning| warning.contains(text))
}

#[tokio::test]
async fn webhook_behind_a_service_must_prove_the_services_name() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let server = HttpsServer::start(own_address(), "hook.default.svc", allow).await;
    let behind = |service: &str| {
        let service = json!({"namespace": "default", "name": service, "port": 8443, "path": "/review"});
        json!({"service": service, "caBundle": STANDARD.encode(&server.ca)})
    };
    for name in ["hook", "other"] {
        expose(&admin, name, &server).await;
    }
    admin.post(VALIDATING, configured("good", behind("hook"), &["v1"])).await.ok();
    in_force(&admin, |answer| answer.code == 201 && warned(answer, "asked at /review")).await;
    // The same endpoint, whose certificate is not of this name.
    admin.post(VALIDATING, configured("wrong", behind("other"), &["v1"])).await.ok();
    in_force(&admin, |answer| {
        let text = answer.text();
        answer.code == 500
            && text.contains("other.default.svc:8443")
            && text.contains("invalid peer certificate")
    })
    .await;
}

#[tokio::test]
async fn webhook_of_v1beta1_is_asked_in_v1beta1_and_may_answer_barely() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let server = HttpsServer::start("127.0.0.1".parse().unwrap(), "hook", allow_barely).await;
    let client =
        json!({"url": format!("https://{}/", server.address), "caBundle": STANDARD.encode(&server.ca)});
    admin.post(VALIDATING, configured("older", client.clone(), &["v2", "v1beta1", "v1"])).await.ok();
    in_force(&admin, |answer| answer.code == 201 && warned(answer, "asked in admission.k8s.io/v1beta1"))
        .await;
    // In v1 that is no answer.
    admin.post(VALIDATING, configured("strict", client, &["v1"])).await.ok();
    in_force(&admin, |answer| {
        answer.code == 500 && answer.text().contains("expected webhook response of admission.k8s.io/v1")
    })
    .await;
}

#[tokio::test]
async fn webhook_is_asked_about_the_scope_of_its_rules() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| json!({"allowed": true, "warnings": ["seen"]})).await;
    for (name, scope, expected) in [
        ("of-cluster", "Cluster", [false, true]),
        ("of-namespaces", "Namespaced", [true, false]),
        ("of-both", "*", [true, true]),
    ] {
        let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"],
            "scope": scope}]);
        admin.post(VALIDATING, webhook.configured(name, json!({"rules": rules}))).await.ok();
        let mut seen = [false; 2];
        for _ in 0..3000 {
            for (place, path) in [CONFIG_MAPS, "/api/v1/namespaces"].into_iter().enumerate() {
                let answer =
                    admin.post(&format!("{path}?dryRun=All"), json!({"metadata": {"name": "probe"}})).await;
                seen[place] = warned(&answer, "seen");
            }
            if seen == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(seen, expected, "{scope}");
        admin.delete(&format!("{VALIDATING}/{name}")).await.ok();
    }
}

#[tokio::test]
async fn webhook_sees_an_equivalent_version_and_which_one_was_asked_for() {
    const OLD: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| json!({"allowed": true, "warnings": ["seen"]})).await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
        "resources": ["horizontalpodautoscalers"]}]);
    admin.post(VALIDATING, webhook.configured("newer", json!({"rules": rules}))).await.ok();
    let autoscaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    let path = format!("{OLD}?dryRun=All");
    let mut is_seen = false;
    for _ in 0..3000 {
        is_seen = warned(&admin.post(&path, autoscaler.clone()).await, "seen");
        if is_seen {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_seen, "the webhook is never asked");
    let question = webhook.asked().remove(0);
    let versions =
        ["kind", "resource", "requestKind", "requestResource"].map(|field| &question[field]["version"]);
    assert_eq!(versions, ["v2", "v2", "v1", "v1"], "{question}");
    let object = &question["object"];
    assert_eq!(object["apiVersion"], "autoscaling/v2", "{question}");
    assert_eq!(object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50, "{question}");
}
