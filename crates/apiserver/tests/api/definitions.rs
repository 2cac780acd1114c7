//! CustomResourceDefinitions as objects: watched, listed, changed, and what changes with them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A cluster-scoped kind `KIND` in `GROUP`, with this schema for each version.
fn definition(group: &str, kind: &str, versions: &[&str], schema: &Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let versions = versions.iter().enumerate().map(|(i, name)| {
        json!({"name": name, "served": true, "storage": i == 0, "schema": {"openAPIV3Schema": schema}})
    });
    json!({
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"of": group.split('.').next()}},
        "spec": {
            "group": group, "scope": "Cluster", "names": {"plural": plural, "kind": kind},
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Asks until the answer is as wanted.
async fn until(client: &Client, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    for _ in 0..3000 {
        let answer = client.get(path).await;
        if wanted(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path}: {}", client.get(path).await.text());
}

#[tokio::test]
async fn they_are_watched_listed_and_deleted_together() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut watch = admin.watch(&format!("{DEFINITIONS}?watch=1&labelSelector=of%3Da")).await;
    let [one, two, three] = [("a.example.com", "One"), ("a.example.com", "Two"), ("b.example.com", "Three")]
        .map(|(group, kind)| definition(group, kind, &["v1"], &anything()));
    admin.post(DEFINITIONS, one).await.ok();
    assert_eq!(watch.expect_name("ADDED").await, "ones.a.example.com");
    // The server says in its status that it is served.
    watch.expect("MODIFIED").await;
    for other in [two, three] {
        admin.post(DEFINITIONS, other).await.ok();
    }
    let listed = admin.get(&format!("{DEFINITIONS}?labelSelector=of%3Da")).await.ok();
    assert_eq!(names(&listed), ["ones.a.example.com", "twos.a.example.com"]);
    admin.delete(&format!("{DEFINITIONS}?labelSelector=of%3Da")).await.ok();
    until(&admin, &format!("{DEFINITIONS}/twos.a.example.com"), |answer| answer.code == 404).await;
    until(&admin, &format!("{DEFINITIONS}/ones.a.example.com"), |answer| answer.code == 404).await;
    while watch.next().await.0 != "DELETED" {}
    assert_eq!(names(&admin.get(DEFINITIONS).await.ok()), ["threes.b.example.com"]);
}

#[tokio::test]
async fn their_status_is_apart() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(DEFINITIONS, definition("a.example.com", "One", &["v1"], &anything())).await.ok();
    let path = format!("{DEFINITIONS}/ones.a.example.com/status");
    let established = |answer: &Answer| answer.text().contains("Established");
    let mut status = until(&admin, &path, established).await.ok();
    let more = json!({"type": "Mine", "status": "True", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    status["status"]["conditions"].as_array_mut().unwrap().push(more);
    status["spec"]["scope"] = json!("Namespaced");
    let updated = admin.put(&path, status).await.ok();
    assert_eq!(updated["spec"]["scope"], "Cluster", "not through the status");
    let has = |object: &Value, ty: &str| {
        object["status"]["conditions"].as_array().unwrap().iter().any(|condition| condition["type"] == ty)
    };
    assert!(has(&admin.get(&path).await.ok(), "Mine"));
    let patch = json!({"status": {"storedVersions": ["v1"]}, "metadata": {"labels": {"patched": "yes"}}});
    admin.patch(MERGE, &path, patch).await.ok();
    let read = admin.get(&path).await.ok();
    assert!(has(&read, "Mine") && read["status"]["storedVersions"] == json!(["v1"]), "{read}");
}

#[tokio::test]
async fn new_defaults_reach_old_objects() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let schema = |defaults: [Value; 2]| {
        let field = |default: &Value| match default {
            Value::Null => json!({"type": "string"}),
            default => json!({"type": "string", "default": default}),
        };
        json!({"type": "object", "properties": {"a": field(&defaults[0]), "b": field(&defaults[1])}})
    };
    let define = |defaults| definition("a.example.com", "One", &["v1"], &schema(defaults));
    let objects = "/apis/a.example.com/v1/ones";
    admin.post(DEFINITIONS, define([Value::Null, Value::Null])).await.ok();
    until(&admin, objects, |answer| answer.code == 200).await;
    admin.post(objects, json!({"metadata": {"name": "old"}})).await.ok();
    let redefine = async |defaults| {
        let patch = json!({"spec": {"versions": define(defaults)["spec"]["versions"]}});
        admin.patch(MERGE, &format!("{DEFINITIONS}/ones.a.example.com"), patch).await.ok();
    };
    redefine([json!("A"), Value::Null]).await;
    let old = format!("{objects}/old");
    until(&admin, &old, |answer| answer.body["a"] == "A").await;
    admin.post(objects, json!({"metadata": {"name": "new"}})).await.ok();
    redefine([Value::Null, json!("B")]).await;
    until(&admin, &old, |answer| answer.body["b"] == "B" && answer.body["a"].is_null()).await;
    let new = admin.get(&format!("{objects}/new")).await.ok();
    assert_eq!((&new["a"], &new["b"]), (&json!("A"), &json!("B")), "what was stored stays");
    let list = admin.get(objects).await.ok();
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["b"] == "B"), "{list}");
    let mut watch = admin.watch(&format!("{objects}?watch=1")).await;
    assert_eq!(watch.expect("ADDED").await["b"], "B");
}

#[tokio::test]
async fn their_schemas_are_published() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "description": "What is wanted.", "properties": {"size": {"type": "integer"}},
    }}});
    for (group, kind, versions) in [
        ("a.example.com", "One", &["v1", "v2"][..]),
        ("a.example.com", "Two", &["v1"]),
        ("b.example.com", "Three", &["v1"]),
    ] {
        admin.post(DEFINITIONS, definition(group, kind, versions, &schema)).await.ok();
    }
    let document = |group: &str, version: &str| format!("/openapi/v3/apis/{group}.example.com/{version}");
    let published = |kind: &'static str| {
        move |answer: &Answer| {
            answer.code == 200
                && answer.body["components"]["schemas"].as_object().is_some_and(|schemas| {
                    schemas.iter().any(|(name, schema)| {
                        name.ends_with(&format!(".{kind}"))
                            && schema["properties"]["spec"]["description"] == "What is wanted."
                    })
                })
        }
    };
    until(&admin, &document("a", "v1"), published("One")).await;
    until(&admin, &document("a", "v1"), published("Two")).await;
    until(&admin, &document("a", "v2"), published("One")).await;
    until(&admin, &document("b", "v1"), published("Three")).await;
    let shown = admin.get(&document("b", "v1")).await.ok();
    let properties = &shown["components"]["schemas"]["com.example.b.v1.Three"]["properties"];
    for (field, begins) in [
        ("apiVersion", "APIVersion defines"),
        ("kind", "Kind is a string value"),
        ("metadata", "Standard object's metadata"),
    ] {
        let told = properties[field]["description"].as_str().unwrap_or_default();
        assert!(told.starts_with(begins), "{field}: {properties}");
    }
    // A version that is renamed, and one that is no longer served.
    let renamed = json!([{"op": "replace", "path": "/spec/versions/1/name", "value": "v3"}]);
    let ones = format!("{DEFINITIONS}/ones.a.example.com");
    admin.patch(JSON_PATCH, &ones, renamed).await.ok();
    until(&admin, &document("a", "v3"), published("One")).await;
    until(&admin, &document("a", "v2"), |answer| answer.code == 404).await;
    let unserved = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    admin.patch(JSON_PATCH, &ones, unserved).await.ok();
    until(&admin, &document("a", "v3"), |answer| answer.code == 404).await;
    until(&admin, &document("a", "v1"), published("One")).await;
    assert!(!admin.get("/openapi/v3").await.text().contains("a.example.com/v3"));
}

#[tokio::test]
async fn their_objects_are_checked_field_by_field() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let checked = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        }},
    }});
    for (kind, schema) in [("Free", &anything()), ("Checked", &checked)] {
        admin.post(DEFINITIONS, definition("a.example.com", kind, &["v1"], schema)).await.ok();
    }
    let path = |plural: &str, name: &str| {
        format!("/apis/a.example.com/v1/{plural}/{name}?fieldManager=f&fieldValidation=Strict")
    };
    for plural in ["frees", "checkeds"] {
        until(&admin, &format!("/apis/a.example.com/v1/{plural}"), |answer| answer.code == 200).await;
    }
    let object = |kind: &str, more: &str| {
        format!(r#"{{"apiVersion":"a.example.com/v1","kind":"{kind}","metadata":{{"name":"x"}}{more}}}"#)
    };
    for (kind, more, problem) in [
        ("Free", r#","spec":{"anything":1}"#, ""),
        ("Free", r#","spec":{"twice":1,"twice":2}"#, r#"key "twice" already set in map"#),
        ("Checked", r#","spec":{"size":1}"#, ""),
        ("Checked", r#","spec":{"size":1,"other":2}"#, ".spec.other: field not declared in schema"),
        ("Checked", r#","spec":{"size":1,"size":2}"#, r#"key "size" already set in map"#),
        (
            "Checked",
            r#","template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","nonsense":"x"}}"#,
            ".template.metadata.nonsense: field not declared in schema",
        ),
    ] {
        let plural = format!("{}s", kind.to_lowercase());
        let body = object(kind, more);
        let answer = admin.send(http::Method::PATCH, &path(&plural, "x"), APPLY, body.clone()).await;
        if problem.is_empty() {
            answer.ok();
            continue;
        }
        // Upstream takes what is not declared for a failure of its own.
        let code = if problem.contains("declared") { 500 } else { 400 };
        let told = answer.body["message"].as_str().unwrap_or_default();
        assert!(answer.code == code && told.contains(problem), "{body}: {}", answer.text());
    }
    let metadata = object("Checked", "").replace(r#""name":"x""#, r#""name":"x","nonsense":"y""#);
    let refused = admin.send(http::Method::PATCH, &path("checkeds", "x"), APPLY, metadata).await;
    let told = refused.body["message"].as_str().unwrap_or_default();
    assert!(refused.code == 500 && told.contains(".metadata.nonsense: field not declared"), "{told}");
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let mut typed = config_map("typed");
    typed["metadata"]["nonsense"] = json!("x");
    let refused = admin.post(&strict, typed).await.refused(400, "BadRequest");
    assert!(refused["message"].as_str().unwrap().contains("metadata.nonsense"), "{refused}");
}

/// The definition of a kind that is built in is kept for those who look for it. The kind stays as it is, also after it.
#[tokio::test]
async fn definition_of_a_built_in_kind_changes_nothing() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let (group, class) = ("networking.k8s.io", "/apis/networking.k8s.io/v1/ingressclasses");
    let mut built_in = definition(group, "IngressClass", &["v1"], &anything());
    built_in["metadata"]["name"] = json!("ingressclasses.networking.k8s.io");
    built_in["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com"});
    built_in["spec"]["names"]["plural"] = json!("ingressclasses");
    admin
        .post(class, json!({"metadata": {"name": "kept"}, "spec": {"controller": "example.com/x"}}))
        .await
        .ok();
    let created = admin.post(DEFINITIONS, built_in).await;
    let warning = created.headers.get("warning").map(|text| text.to_str().unwrap().to_owned());
    assert!(warning.is_some_and(|text| text.contains("is built in")), "{}", created.text());
    let path = format!("{DEFINITIONS}/ingressclasses.networking.k8s.io");
    let is_established = |answer: &Answer| answer.text_whole().contains("InitialNamesAccepted");
    until(&admin, &path, is_established).await;
    // Still checked by the rules of the program.
    let odd =
        admin.post(class, json!({"metadata": {"name": "odd"}, "spec": {"controller": "no path"}})).await;
    assert_eq!(odd.code, 422, "{}", odd.text());
    admin.delete(&path).await.ok();
    until(&admin, &path, |answer| answer.code == 404).await;
    assert_eq!(admin.get(&format!("{class}/kept")).await.code, 200);
}
