//! Validation rules of custom kinds: refused with their definition, held against objects, lenient with what was there.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DISKS: &str = "/apis/rules.example.com/v1/disks";
const SCHEMA: &str = "spec.versions[0].schema.openAPIV3Schema";

/// Disks whose spec has these rules beside those of its fields.
fn definition(rules: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "x-kubernetes-validations": rules, "properties": {
            "size": {"type": "integer"},
            "most": {"type": "integer"},
            "class": {"type": "string", "maxLength": 20,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "class is immutable"}]},
        }},
        "status": {"type": "object", "properties": {"used": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= 0", "message": "used is negative"}]}}},
    }});
    json!({
        "metadata": {"name": "disks.rules.example.com"},
        "spec": {
            "group": "rules.example.com", "scope": "Cluster", "names": {"plural": "disks", "kind": "Disk"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}}],
        },
    })
}

fn disk(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn with_disks(rules: &Value) -> (Cluster, Client) {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(DEFINITIONS, definition(rules)).await.ok();
    for _ in 0..3000 {
        if admin.get(DISKS).await.code == 200 {
            return (cluster, admin);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("disks are never served");
}

#[tokio::test]
async fn a_definition_with_a_wrong_rule_is_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let at = format!("{SCHEMA}.properties[spec].x-kubernetes-validations[0].rule");
    for (rule, expected) in [
        ("self.missing == 1", "compilation failed: ERROR: <input>:1:5: undefined field 'missing'"),
        ("self.size +", "compilation failed: ERROR: <input>:1:12: Syntax error: mismatched input '<EOF>'"),
        ("self.size", "cel expression must evaluate to a bool"),
    ] {
        let refused =
            admin.post(DEFINITIONS, definition(&json!([{"rule": rule}]))).await.refused(422, "Invalid");
        let cause = &refused["details"]["causes"][0];
        assert_eq!(cause["field"], at.as_str(), "{refused}");
        assert!(cause["message"].as_str().unwrap().contains(expected), "{refused}");
    }
    let mut expensive = definition(&json!([]));
    let schema = &mut expensive["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["list"] = json!({"type": "array", "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}]});
    let refused = admin.post(DEFINITIONS, expensive).await.refused(422, "Invalid");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("estimated rule cost exceeds budget by factor of more than 100x"), "{message}");
}

#[tokio::test]
async fn objects_keep_the_rules_of_their_kind() {
    let rules = json!([{"rule": "!has(self.most) || self.size <= self.most", "fieldPath": ".size",
        "messageExpression": "'the size is more than the most'"}]);
    let (_cluster, admin) = with_disks(&rules).await;
    admin.post(DISKS, disk("good", json!({"size": 1, "most": 2, "class": "fast"}))).await.ok();
    let refused = admin.post(DISKS, disk("bad", json!({"size": 3, "most": 2}))).await.refused(422, "Invalid");
    let cause = &refused["details"]["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!("spec.size"), &json!("FieldValueInvalid")));
    assert_eq!(cause["message"], "Invalid value: the size is more than the most");
    let refused = admin.post(DISKS, disk("bad", json!({"most": 2}))).await.refused(422, "Invalid");
    assert!(
        refused["message"].as_str().unwrap().contains("some validation rules were not checked"),
        "{refused}"
    );

    let path = format!("{DISKS}/good");
    let refused = admin.patch(MERGE, &path, json!({"spec": {"class": "slow"}})).await.refused(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["message"], "Invalid value: \"slow\": class is immutable");
    admin.patch(MERGE, &path, json!({"spec": {"size": 2}})).await.ok();
    let status = format!("{path}/status");
    let refused = admin.patch(MERGE, &status, json!({"status": {"used": -1}})).await.refused(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "status.used");
    admin.patch(MERGE, &status, json!({"status": {"used": 1}})).await.ok();
}

#[tokio::test]
async fn what_was_wrong_before_a_rule_came_may_stay() {
    let (_cluster, admin) = with_disks(&json!([])).await;
    admin.post(DISKS, disk("old", json!({"size": -1, "class": "a"}))).await.ok();
    let path = format!("{DEFINITIONS}/disks.rules.example.com");
    let mut changed = admin.get(&path).await.ok();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let size = changed.pointer_mut(&format!("{spec}/properties/size")).unwrap();
    size["x-kubernetes-validations"] = json!([{"rule": "self > 0", "message": "a size is positive"}]);
    admin.put(&path, changed).await.ok();
    let is_refused = |answer: &Answer| answer.code == 422;
    let mut tries = 0;
    while !is_refused(&admin.post(DISKS, disk("new", json!({"size": -1}))).await) {
        admin.delete(&format!("{DISKS}/new")).await.ok();
        tries += 1;
        assert!(tries < 3000, "the rule is never served");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let path = format!("{DISKS}/old");
    let labelled = admin.patch(MERGE, &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert!(labelled.warnings()[0].contains("spec.size: Invalid value: -1: a size is positive"));
    labelled.ok();
    admin.patch(MERGE, &path, json!({"spec": {"size": -2}})).await.refused(422, "Invalid");
    admin.patch(MERGE, &path, json!({"spec": {"size": 2}})).await.ok();
}

/// A schema that became stricter says nothing about what an update leaves alone.
#[tokio::test]
async fn unchanged_values_may_stay_when_the_schema_becomes_stricter() {
    let (_cluster, admin) = with_disks(&json!([])).await;
    admin.post(DISKS, disk("d", json!({"size": 9, "most": 20}))).await.ok();
    let path = format!("{DEFINITIONS}/disks.rules.example.com");
    let stricter = json!([{"op": "add", "value": 5,
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"}]);
    admin.patch(JSON_PATCH, &path, stricter).await.ok();
    for _ in 0..3000 {
        if admin.post(&format!("{DISKS}?dryRun=All"), disk("e", json!({"size": 9}))).await.code == 422 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    admin.patch(MERGE, &format!("{DISKS}/d"), json!({"spec": {"most": 30}})).await.ok();
    let refused = admin.patch(MERGE, &format!("{DISKS}/d"), json!({"spec": {"size": 10}})).await;
    assert_eq!(refused.refused(422, "Invalid")["details"]["causes"][0]["field"], "spec.size");
}
