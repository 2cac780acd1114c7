//! Admission webhooks for custom kinds and for their definitions: asked, obeyed, and what they add is pruned as what
//! anybody else writes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::*;
use crate::webhooks::{MUTATING, VALIDATING, Webhook, patch};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PLAIN: &str = "/apis/stable.example.com/v1/namespaces/default/plains";

/// Two versions of one kind, whose objects have `data` with texts below these names.
fn definition(stored: &str, fields: &[&str]) -> Value {
    let text = |name: &&str| ((*name).to_owned(), json!({"type": "string"}));
    let data: serde_json::Map<String, Value> = fields.iter().map(text).collect();
    let schema = json!({"type": "object", "properties": {"data": {"type": "object", "properties": data}}});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == stored, "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "plains.stable.example.com"}, "spec": {
        "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "plains", "kind": "Plain"},
        "versions": [version("v1"), version("v2")],
    }})
}

fn rules(group: &str, resource: &str) -> Value {
    json!({"rules": [{"operations": ["*"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]}]})
}

fn plain(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

/// Creates it, without effect, until the answer is as wanted.
async fn until(admin: &Client, path: &str, object: &Value, wanted: impl Fn(&Answer) -> bool) {
    for _ in 0..3000 {
        if wanted(&admin.post(&format!("{path}?dryRun=All"), object.clone()).await) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path}: {}", admin.post(&format!("{path}?dryRun=All"), object.clone()).await.text());
}

/// Upstream: "should be able to deny custom resource creation, update and deletion".
#[tokio::test]
async fn custom_resources_can_be_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(DEFINITIONS, definition("v1", &["key"])).await.ok();
    until(&admin, PLAIN, &plain("p", json!({})), |answer| answer.code == 201).await;
    let webhook = Webhook::start(|request| {
        let object = if request["object"].is_null() { &request["oldObject"] } else { &request["object"] };
        match object["data"]["key"] == "offending" {
            true => json!({"allowed": false, "status": {"message": "unwanted data"}}),
            false => json!({"allowed": true}),
        }
    })
    .await;
    admin.post(PLAIN, plain("old", json!({"key": "offending"}))).await.ok();
    admin.post(VALIDATING, webhook.configured("judge", rules("stable.example.com", "plains"))).await.ok();
    let offending = plain("new", json!({"key": "offending"}));
    until(&admin, PLAIN, &offending, |answer| answer.text().contains("denied the request: unwanted data"))
        .await;
    admin.post(PLAIN, plain("new", json!({"key": "fine"}))).await.ok();
    let refused = admin.patch(MERGE, &format!("{PLAIN}/new"), json!({"data": {"key": "offending"}})).await;
    assert!(refused.text().contains("unwanted data"), "{}", refused.text());
    let refused = admin.delete(&format!("{PLAIN}/old")).await;
    assert!(refused.text().contains("unwanted data"), "{}", refused.text());
    // Through the other version it is asked too, in the version of its rules.
    let refused = admin.delete(&format!("{}/old", PLAIN.replace("v1", "v2"))).await;
    assert!(refused.text().contains("unwanted data"), "{}", refused.text());
    let asked = webhook.asked().pop().unwrap();
    assert_eq!(asked["oldObject"]["apiVersion"], "stable.example.com/v1", "{asked}");
    assert_eq!(asked["requestResource"]["version"], "v2", "{asked}");
    admin.patch(MERGE, &format!("{PLAIN}/old"), json!({"data": {"key": "fine"}})).await.ok();
    admin.delete(&format!("{PLAIN}/old")).await.ok();
}

/// Upstream: "should deny crd creation".
#[tokio::test]
async fn definitions_can_be_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook =
        Webhook::start(|_| json!({"allowed": false, "status": {"message": "no kinds today"}})).await;
    let asks = rules("apiextensions.k8s.io", "customresourcedefinitions");
    admin.post(VALIDATING, webhook.configured("judge", asks)).await.ok();
    let refusal = |answer: &Answer| answer.text().contains("denied the request: no kinds today");
    until(&admin, DEFINITIONS, &definition("v1", &[]), refusal).await;
    assert!(refusal(&admin.post(DEFINITIONS, definition("v1", &[])).await));
    admin.get(&format!("{DEFINITIONS}/plains.stable.example.com")).await.refused(404, "NotFound");
}

/// Upstream: "should mutate custom resource", "… with pruning", "… with different stored version".
#[tokio::test]
async fn custom_resources_are_mutated_and_pruned() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(DEFINITIONS, definition("v1", &["start", "stage-1"])).await.ok();
    until(&admin, PLAIN, &plain("p", json!({})), |answer| answer.code == 201).await;
    admin.post(PLAIN, plain("old", json!({"start": "yes"}))).await.ok();
    let first = Webhook::start(|request| match request["object"]["data"]["start"] == "yes" {
        true => patch(json!([{"op": "add", "path": "/data/stage-1", "value": "yes"}])),
        false => json!({"allowed": true}),
    })
    .await;
    let second = Webhook::start(|request| match request["object"]["data"]["stage-1"] == "yes" {
        true => patch(json!([{"op": "add", "path": "/data/stage-2", "value": "yes"}])),
        false => json!({"allowed": true}),
    })
    .await;
    for (name, webhook) in [("a-first", &first), ("b-second", &second)] {
        admin.post(MUTATING, webhook.configured(name, rules("stable.example.com", "plains"))).await.ok();
    }
    let started = plain("p", json!({"start": "yes"}));
    let mutated = json!({"start": "yes", "stage-1": "yes"});
    until(&admin, PLAIN, &started, |answer| answer.body["data"] == mutated && !second.asked().is_empty())
        .await;
    let made = admin.post(PLAIN, started).await.ok();
    assert_eq!(made["data"], mutated, "what the schema does not know is gone");
    // Stored in another version from now on: an object of before is mutated when it is changed.
    let path = format!("{DEFINITIONS}/plains.stable.example.com");
    let versions = definition("v2", &["start", "stage-1", "stage-2"])["spec"]["versions"].clone();
    admin.patch(MERGE, &path, json!({"spec": {"versions": versions}})).await.ok();
    let whole = json!({"start": "yes", "stage-1": "yes", "stage-2": "yes"});
    until(&admin, PLAIN, &plain("q", json!({"start": "yes"})), |answer| answer.body["data"] == whole).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = admin.patch(MERGE, &format!("{PLAIN}/old"), label).await.ok();
    assert_eq!(changed["data"], whole, "{changed}");
    let read = admin.get(&format!("{}/old", PLAIN.replace("v1", "v2"))).await.ok();
    assert_eq!(read["data"], whole, "{read}");
}
