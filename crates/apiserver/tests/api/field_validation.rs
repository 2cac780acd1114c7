//! `fieldValidation`: what is told about fields that are unknown, stand twice or are not declared, in
//! upstream's words.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::cluster::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NOXUS: &str = "/apis/example.com/v1/noxus";

async fn with_noxus() -> (Cluster, Client) {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "foo": {"type": "string"},
            "closed": {"type": "object", "properties": {"a": {"type": "string"}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
                "spec": {"type": "object"},
            }},
        },
    }}});
    let definition = json!({"metadata": {"name": "noxus.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "noxus", "kind": "Noxu"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    admin.post(DEFINITIONS, definition).await.ok();
    for _ in 0..3000 {
        if admin.get(NOXUS).await.code == 200 {
            return (cluster, admin);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the custom kind is never served");
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn strict_validation_names_unknown_and_duplicate_fields_together() {
    let cluster = Cluster::start().await;
    let body = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 2, "replicas": 3, "unknownField": "foo", "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
    let post = async |validation: &str| {
        let path = format!("{DEPLOYMENTS}?dryRun=All&fieldValidation={validation}");
        cluster.admin().send(Method::POST, &path, "application/json", body).await
    };
    let refused = post("Strict").await.refused(400, "BadRequest");
    let expected =
        r#"strict decoding error: unknown field "spec.unknownField", duplicate field "spec.replicas""#;
    assert_eq!(message(&refused), expected);
    let warned = post("Warn").await;
    assert_eq!(warned.warnings().len(), 2, "{:?}", warned.warnings());
    assert_eq!(warned.ok()["spec"]["replicas"], 3);
    assert!(post("Ignore").await.warnings().is_empty());
    // A wrong type is worse than either.
    let wrong = body.replace("\"replicas\": 3", "\"replicas\": \"x\"");
    let path = format!("{DEPLOYMENTS}?fieldValidation=Strict");
    let refused = cluster.admin().send(Method::POST, &path, "application/json", wrong).await;
    assert!(message(&refused.refused(400, "BadRequest")).contains("cannot unmarshal string"));
}

#[tokio::test]
async fn yaml_duplicate_key_is_an_error_a_warning_or_ignored() {
    let (_cluster, admin) = with_noxus().await;
    let yaml = "\napiVersion: example.com/v1\nkind: Noxu\nmetadata:\n  name: mytest\nspec:\n  unknown: uk1\n  foo: foo1\n  foo: foo2\n";
    let line = r#"line 9: key "foo" already set in map"#;
    let apply = async |validation: &str| {
        let path = format!("{NOXUS}/mytest?fieldManager=f&fieldValidation={validation}");
        admin.send(Method::PATCH, &path, APPLY, yaml).await
    };
    let refused = apply("Strict").await.refused(400, "BadRequest");
    let expected = format!(
        "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {line}"
    );
    assert_eq!(message(&refused), expected);
    admin.get(&format!("{NOXUS}/mytest")).await.refused(404, "NotFound");
    let warned = apply("Warn").await;
    assert_eq!(warned.warnings(), [format!("299 - {:?}", line)]);
    assert_eq!(warned.ok()["spec"]["foo"], "foo2", "the last one counts");
    let ignored = apply("Ignore").await;
    assert!(ignored.warnings().is_empty());
    ignored.ok();

    let post = async |validation: &str| {
        let path = format!("{NOXUS}?dryRun=All&fieldValidation={validation}");
        let yaml = yaml.replace("mytest", "other").replace("kind: Noxu\n", "kind: Noxu\nodd: 1\n");
        admin.send(Method::POST, &path, "application/yaml", yaml).await
    };
    let refused = post("Strict").await.refused(400, "BadRequest");
    assert_eq!(
        message(&refused),
        "strict decoding error: yaml: unmarshal errors:\n  line 10: key \"foo\" already set in map, unknown field \"odd\""
    );
    assert_eq!(post("Warn").await.warnings().len(), 2);
    post("Ignore").await.ok();
}

#[tokio::test]
async fn apply_undeclared_field_is_refused_as_upstream_does() {
    let (_cluster, admin) = with_noxus().await;
    let apply = async |path: &str, body: Value| {
        let answer = admin.patch(APPLY, &format!("{path}?fieldManager=f&fieldValidation=Ignore"), body).await;
        assert_eq!((answer.code, answer.body.get("reason")), (500, None), "{}", answer.text());
        message(&answer.body).to_owned()
    };
    let noxu = |metadata: Value, spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Noxu", "metadata": metadata, "spec": spec});
    let path = format!("{NOXUS}/n");
    let mut odd = noxu(json!({"name": "n"}), json!({}));
    odd["unknownField"] = json!("x");
    assert_eq!(
        apply(&path, odd).await,
        "failed to create typed patch object (/n; example.com/v1, Kind=Noxu): .unknownField: field not declared in schema"
    );
    let below = noxu(
        json!({"name": "n", "unknownMeta": 1}),
        json!({"template": {"apiVersion": "v1", "kind": "Sub", "metadata": {"name": "s", "namespace": "x", "unknownSubMeta": 1}}}),
    );
    let told = apply(&path, below).await;
    assert!(
        told.ends_with("errors:\n  .metadata.unknownMeta: field not declared in schema\n  .spec.template.metadata.unknownSubMeta: field not declared in schema"),
        "{told}"
    );
    admin.get(&path).await.refused(404, "NotFound");
    let fine = noxu(
        json!({"name": "n"}),
        json!({"any": 1, "template": {"apiVersion": "v1", "kind": "Sub", "metadata": {"name": "s", "namespace": "x"}}}),
    );
    let made = admin.patch(APPLY, &format!("{path}?fieldManager=f&fieldValidation=Strict"), fine).await.ok();
    assert_eq!(made["spec"]["template"]["metadata"], json!({"name": "s", "namespace": "x"}));

    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "dataa": {}});
    let told = apply(&format!("{CONFIG_MAPS}/m"), map).await;
    assert_eq!(
        told,
        "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .dataa: field not declared in schema"
    );
}

#[tokio::test]
async fn yaml_boolean_as_a_name_is_told_to_be_quoted() {
    let (_cluster, admin) = with_noxus().await;
    for (path, head) in
        [(CONFIG_MAPS, "apiVersion: v1\nkind: ConfigMap"), (NOXUS, "apiVersion: example.com/v1\nkind: Noxu")]
    {
        for (name, what) in [("y", "the boolean true"), ("off", "the boolean false"), ("12", "the number 12")]
        {
            let yaml = format!("{head}\nmetadata: {{name: {name}}}\n");
            for (method, path, content_type) in [
                (Method::POST, path.to_owned(), "application/yaml"),
                (Method::PATCH, format!("{path}/{name}?fieldManager=f"), APPLY),
            ] {
                let answer = admin.send(method, &path, content_type, yaml.clone()).await;
                let refused = answer.refused(400, "BadRequest");
                let told = message(&refused);
                assert!(
                    told.contains(&format!("metadata.name is {what}")) && told.contains("quotes"),
                    "{told}"
                );
            }
        }
        let quoted = format!("{head}\nmetadata: {{name: 'y'}}\n");
        admin.send(Method::POST, path, "application/yaml", quoted).await.ok();
    }
    let yaml = "metadata: {name: m}\ndata: {answer: yes}\n";
    let refused =
        admin.send(Method::POST, CONFIG_MAPS, "application/yaml", yaml).await.refused(400, "BadRequest");
    assert!(message(&refused).contains("bool true into field data[answer]"), "{refused}");
    assert!(message(&refused).contains("put it in quotes"), "{refused}");
}

#[tokio::test]
async fn yaml_aliases_are_bounded() {
    let cluster = Cluster::start().await;
    let anchors: String = (0..400).map(|i| format!("  a{i}: &a{i} x\n")).collect();
    let aliases: String = (0..3900).map(|i| format!("  b{i}: *big\n")).collect();
    let yaml =
        format!("metadata: {{name: m}}\ndata:\n{anchors}  big: &big {}\n{aliases}", "x".repeat(1 << 20));
    let answer = cluster.admin().send(Method::POST, CONFIG_MAPS, "application/yaml", yaml).await;
    assert!(message(&answer.refused(400, "BadRequest")).contains("not valid YAML"));
}
