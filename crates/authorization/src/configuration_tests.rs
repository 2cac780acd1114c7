//! Which files are taken, and in which words the others are refused.

use serde_json::{Value, json};

use super::*;

/// A file whose only authorizer is this webhook, changed by `more`; an empty kubeconfig stands at the path that it names.
fn webhook(more: Value) -> String {
    let mut webhook = json!({"timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/no/such"}});
    for (field, value) in more.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    file(json!([{"type": "Webhook", "name": "w", "webhook": webhook}]))
}

fn file(authorizers: Value) -> String {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers})
        .to_string()
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = AuthorizationSettings::parse(text).expect_err(text).to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn authorizers_of_the_cluster_are_taken_in_any_order() {
    let text = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthorizationConfiguration\nauthorizers:\n\
        - {type: RBAC, name: rbac}\n- {type: Node, name: node}\n";
    let settings = AuthorizationSettings::parse(text).unwrap();
    let found: Vec<&str> = settings.steps.iter().map(|step| step.by.name()).collect();
    assert_eq!(found, ["RBAC", "Node"]);
}

#[test]
fn files_that_are_wrong_are_refused_by_the_field() {
    refused("authorizers: {", "");
    refused(
        "apiVersion: v1\nkind: Config\n",
        "AuthorizationConfiguration of apiserver.config.k8s.io/v1 is expected",
    );
    refused(&file(json!([])), "at least one authorization mode must be defined");
    refused(
        &file(json!([{"type": "RBAC", "name": "a"}, {"type": "RBAC", "name": "b"}])),
        "authorizers[1].type: RBAC",
    );
    refused(
        &file(json!([{"type": "RBAC", "name": "a"}, {"type": "Node", "name": "a"}])),
        "authorizers[1].name",
    );
    refused(&file(json!([{"type": "RBAC"}])), "authorizers[0].name");
    refused(&file(json!([{"type": "RBAC", "name": "No_Name"}])), "authorizers[0].name");
    refused(&file(json!([{"type": "AlwaysAllow", "name": "a"}])), "AlwaysAllow is not there");
    refused(&file(json!([{"type": "Else", "name": "a"}])), "\"Else\" is not known");
    refused(&file(json!([{"type": "Webhook", "name": "a"}])), "required when type=Webhook");
    refused(&file(json!([{"type": "RBAC", "name": "a", "wehbook": {}}])), "wehbook");
    let node = json!([{"type": "Node", "name": "a", "webhook": {"timeout": "3s"}}]);
    refused(&file(node), "may only be specified when type=Webhook");
}

#[test]
fn webhooks_that_are_wrong_are_refused_by_the_field() {
    let check =
        |more: Value, expected: &str| refused(&webhook(more), &format!("authorizers[0].webhook.{expected}"));
    check(json!({"timeout": ""}), "timeout: required");
    check(json!({"timeout": "31s"}), "timeout: must be > 0s and <= 30s");
    check(json!({"timeout": "0s"}), "timeout: must be > 0s and <= 30s");
    check(json!({"timeout": "soon"}), "timeout: \"soon\" is no time");
    check(json!({"authorizedTTL": "0s"}), "authorizedTTL: must be > 0s");
    check(json!({"unauthorizedTTL": "-1s"}), "unauthorizedTTL: \"-1s\" is no time");
    check(json!({"subjectAccessReviewVersion": ""}), "subjectAccessReviewVersion: required");
    check(
        json!({"subjectAccessReviewVersion": "v1beta1"}),
        "subjectAccessReviewVersion: \"v1beta1\" is not spoken",
    );
    check(json!({"failurePolicy": "Allow"}), "failurePolicy: \"Allow\" is not known");
    check(json!({"connectionInfo": {"type": "InClusterConfig"}}), "connectionInfo.type: InClusterConfig");
    check(json!({"connectionInfo": {"type": "KubeConfigFile"}}), "connectionInfo.kubeConfigFile: required");
    let relative = json!({"type": "KubeConfigFile", "kubeConfigFile": "a/b"});
    check(
        json!({"connectionInfo": relative}),
        "connectionInfo.kubeConfigFile: \"a/b\" must be an absolute path",
    );
    check(json!({}), "connectionInfo.kubeConfigFile: /no/such: No such file");
    let conditions = |expression: &str| {
        json!({"matchConditionSubjectAccessReviewVersion": "v1", "matchConditions": [
            {"expression": "true"}, {"expression": expression}]})
    };
    check(conditions(""), "matchConditions[1].expression: required");
    check(conditions("true"), "matchConditions[1].expression: it is there twice");
    check(conditions("request.user"), "matchConditions[1].expression:");
    check(
        json!({"matchConditions": [{"expression": "true"}]}),
        "matchConditionSubjectAccessReviewVersion: required",
    );
}

#[test]
fn times_are_read_as_go_writes_them() {
    let check = |text: &str, expected: Option<u64>| {
        assert_eq!(time("x", text).ok().map(|time| time.as_millis() as u64), expected, "{text}");
    };
    check("3s", Some(3000));
    check("1h2m3s", Some(3_723_000));
    check("500ms", Some(500));
    check("0", Some(0));
    check("", None);
    check("3", None);
    check("s", None);
    check("1d", None);
    check("99999999999999999999s", None);
}

#[test]
fn fuzz_authorization_configurations_are_foreign_bytes() {
    let good = webhook(json!({"matchConditions": [{"expression": "has(request.resourceAttributes)"}]}));
    let corpus =
        minik8s_fuzz::Corpus { inputs: &[good.as_bytes()], words: &["RBAC", "Node", "v1", "authorizers"] };
    minik8s_fuzz::fuzz("authorization configuration", 10, corpus, |input| {
        drop(AuthorizationSettings::parse(&String::from_utf8_lossy(input)));
    });
}
