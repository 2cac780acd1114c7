//! Ingress and IngressClass through every verb, as upstream's conformance suite asks for them.

use serde_json::{Value, json};

use crate::cluster::*;

const GROUP: &str = "/apis/networking.k8s.io/v1";

#[tokio::test]
async fn ingress_api() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let spec = json!({"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}});
    let all = format!("{GROUP}/namespaces/default/ingresses");
    every_verb(&admin, "ingresses", "Ingress", &all, spec).await;
    // The status, by update and by patch.
    let object = json!({"metadata": {"name": "s"}, "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}});
    let mut object = admin.post(&all, object).await.ok();
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "169.1.1.1"}]}});
    let status = format!("{all}/s/status");
    assert_eq!(admin.put(&status, object.clone()).await.ok()["status"], object["status"]);
    let patch = json!({"metadata": {"annotations": {"patched": "true"}},
        "status": {"loadBalancer": {"ingress": [{"ip": "169.1.1.2"}]}}});
    let patched = admin.patch(MERGE, &status, patch.clone()).await.ok();
    assert_eq!(patched["status"], patch["status"]);
    assert_eq!(patched["metadata"]["annotations"]["patched"], "true");
    assert_eq!(admin.get(&status).await.ok()["status"], patch["status"]);
}

#[tokio::test]
async fn ingress_class_api() {
    let cluster = Cluster::start().await;
    let all = format!("{GROUP}/ingressclasses");
    every_verb(
        &cluster.admin(),
        "ingressclasses",
        "IngressClass",
        &all,
        json!({"controller": "example.com/c"}),
    )
    .await;
    let ours = cluster.admin().get(&format!("{all}/minik8s")).await.ok();
    assert_eq!(
        ours["spec"]["controller"], "minik8s.io/router",
        "the router's own class is there from the start"
    );
}

async fn every_verb(admin: &Client, plural: &str, kind: &str, all: &str, spec: Value) {
    let has =
        |list: &Value, field: &str, value: &str| list.as_array().unwrap().iter().any(|e| e[field] == value);
    assert!(has(&admin.get("/apis").await.ok()["groups"], "name", "networking.k8s.io"));
    let group = admin.get("/apis/networking.k8s.io").await.ok();
    assert!(has(&group["versions"], "groupVersion", "networking.k8s.io/v1"));
    assert!(has(&admin.get(GROUP).await.ok()["resources"], "name", plural));

    let mut watch = admin.watch(&format!("{all}?watch=1&labelSelector=special%3Dyes")).await;
    let labels = json!({"special": "yes"});
    for name in ["a", "b", "c"] {
        let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "labels": labels}, "spec": spec});
        admin.post(all, object).await.ok();
        assert_eq!(watch.expect_name("ADDED").await, name);
    }
    let one = format!("{all}/a");
    let mut object = admin.get(&one).await.ok();
    assert_eq!(names(&admin.get(&format!("{all}?labelSelector=special%3Dyes")).await.ok()), ["a", "b", "c"]);
    let patch = json!({"metadata": {"annotations": {"patched": "true"}}});
    assert_eq!(admin.patch(MERGE, &one, patch).await.ok()["metadata"]["annotations"]["patched"], "true");
    watch.expect("MODIFIED").await;
    object["metadata"]["resourceVersion"] = Value::Null;
    object["metadata"]["annotations"] = json!({"updated": "true"});
    assert_eq!(admin.put(&one, object).await.ok()["metadata"]["annotations"], json!({"updated": "true"}));
    watch.expect("MODIFIED").await;
    admin.delete(&one).await.ok();
    assert_eq!(watch.expect_name("DELETED").await, "a");
    admin.get(&one).await.refused(404, "NotFound");
    admin.delete(&format!("{all}?labelSelector=special%3Dyes")).await.ok();
    assert_eq!(names(&admin.get(&format!("{all}?labelSelector=special%3Dyes")).await.ok()), [""; 0]);
}
