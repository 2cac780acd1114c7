//! Which namespaces may claim which host names.

use serde_json::{Value, json};

use crate::cluster::*;

const ALLOWED: &str = "minik8s.io/allowed-hosts";

fn dns(name: &str, host: &str) -> (String, Value) {
    let paths = json!([{"path": "/", "backend": {"service": {"name": "s", "port": 80}}}]);
    (
        "minik8s.io/v1 dns".to_owned(),
        json!({"metadata": {"name": name}, "spec": {"rules": [{"host": host, "paths": paths}]}}),
    )
}

fn ingress(name: &str, host: &str) -> (String, Value) {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let http = json!({"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]});
    let rule = if host.is_empty() { json!({"http": http}) } else { json!({"host": host, "http": http}) };
    (
        "networking.k8s.io/v1 ingresses".to_owned(),
        json!({"metadata": {"name": name}, "spec": {"rules": [rule]}}),
    )
}

fn path(kind: &str, namespace: &str) -> String {
    let (version, plural) = kind.split_once(' ').unwrap();
    format!("/apis/{version}/namespaces/{namespace}/{plural}")
}

async fn make(client: &Client, namespace: &str, (kind, object): (String, Value)) -> Answer {
    client.post(&path(&kind, namespace), object).await
}

#[tokio::test]
async fn host_names_belong_to_the_namespace_they_were_given_to() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let shop = json!({"metadata": {"name": "shop", "annotations": {ALLOWED: "shop.org, *.shop.org"}}});
    admin.post("/api/v1/namespaces", shop).await.ok();
    let refused = make(&admin, "default", dns("bank", "bank.com")).await.refused(403, "Forbidden");
    let text = refused["message"].as_str().unwrap();
    let start =
        "dns.minik8s.io \"bank\" is forbidden: host \"bank.com\" may not be claimed: all nodes and pods";
    assert!(text.starts_with(start) && text.contains(ALLOWED), "{text}");
    make(&admin, "default", ingress("bank", "bank.com")).await.ok();
    make(&admin, "default", ingress("any", "")).await.ok();
    make(&admin, "default", dns("free", "free.example")).await.ok();
    for (index, object) in
        [dns("x", "a.shop.org"), ingress("x", "shop.org"), ingress("x", "*.shop.org")].into_iter().enumerate()
    {
        let refused = make(&admin, "default", object).await.refused(403, "Forbidden");
        assert!(
            refused["message"].as_str().unwrap().contains("belongs to namespace \"shop\""),
            "{index}: {refused}"
        );
    }
    make(&admin, "shop", dns("d", "a.shop.org")).await.ok();
    make(&admin, "shop", ingress("i", "*.shop.org")).await.ok();
    make(&admin, "shop", ingress("j", "bank.com")).await.refused(403, "Forbidden");
    make(&admin, "shop", ingress("k", "")).await.refused(403, "Forbidden");
    // What an object has it keeps; what it has not it does not get by a change.
    let none = json!({"metadata": {"annotations": {ALLOWED: ""}}});
    admin.patch(MERGE, "/api/v1/namespaces/shop", none).await.ok();
    let one = format!("{}/d", path("minik8s.io/v1 dns", "shop"));
    admin.patch(MERGE, &one, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    let rules = |host: &str| json!({"spec": {"rules": [{"host": host, "paths": [{"path": "/", "backend": {"service": {"name": "s", "port": 80}}}]}]}});
    admin.patch(MERGE, &one, rules("b.shop.org")).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn host_names_of_the_cluster_are_nobodys() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post("/api/v1/nodes", json!({"metadata": {"name": "node-1"}})).await.ok();
    let everything = json!({"metadata": {"annotations": {ALLOWED: "*"}}});
    admin.patch(MERGE, "/api/v1/namespaces/default", everything).await.ok();
    for host in ["node-1", "kubernetes", "kubernetes.default", "127.1"] {
        for object in [dns("x", host), ingress("x", host)] {
            let refused = make(&admin, "default", object).await;
            assert!(matches!(refused.code, 403 | 422), "{host}: {}", refused.text());
        }
    }
    for host in ["localhost", "web.default.svc.cluster.local", "web.default.svc"] {
        make(&admin, "default", dns("x", host)).await.refused(422, "Invalid");
        make(&admin, "default", ingress("x", host)).await.refused(403, "Forbidden");
    }
    make(&admin, "default", dns("x", "bank.com")).await.ok();
}

#[tokio::test]
async fn host_names_annotation_must_make_sense() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let bad = json!({"metadata": {"annotations": {ALLOWED: "a.org, b.*"}}});
    let refused = admin.patch(MERGE, "/api/v1/namespaces/default", bad).await.refused(422, "Invalid");
    assert_eq!(
        refused["message"],
        "Namespace \"default\" is invalid: metadata.annotations[minik8s.io/allowed-hosts]: Invalid value: \"b.*\": \
         must be a list of NAME, *.NAME or *, separated by commas"
    );
}
