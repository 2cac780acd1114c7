//! MutatingAdmissionPolicies: the steps of upstream's conformance tests, JSON patches and reinvocation.

use serde_json::{Value, json};

use crate::cluster::*;
use crate::policies::{in_force, rule, workload};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// A policy about this resource that is bound everywhere.
pub async fn bind(client: &Client, name: &str, rule: &Value, mutations: Value, fields: Value) {
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never", "mutations": mutations});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    client.post(POLICIES, json!({"metadata": {"name": name}, "spec": spec})).await.ok();
    client.post(BINDINGS, json!({"metadata": {"name": name}, "spec": {"policyName": name}})).await.ok();
}

/// Upstream: "should mutate a Deployment" and "should mutate a Deployment with annotations".
#[tokio::test]
async fn policy_mutates_a_deployment() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let about = rule("apps", "deployments");
    let annotate = "\n Object{\n metadata: Object.metadata{\n annotations: {\n \"mutated-by\": \"admission-policy\"\n }\n }\n }";
    bind(&admin, "annotate.example.com", &about, json!([apply(annotate)]), json!({})).await;
    bind(
        &admin,
        "scale.example.com",
        &about,
        json!([apply("Object{spec: Object.spec{replicas: 1337}}")]),
        json!({}),
    )
    .await;
    in_force(&admin, DEPLOYMENTS, workload("marker", 1), |answer| {
        answer.text_whole().contains("admission-policy") && answer.text_whole().contains("\"replicas\":1337")
    })
    .await;
    let made = admin.post(DEPLOYMENTS, workload("made", 1)).await.ok();
    assert_eq!(made["metadata"]["annotations"], json!({"mutated-by": "admission-policy"}), "{made}");
    assert_eq!(made["spec"]["replicas"], 1337);
    assert_eq!(made["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:latest");
    // Nobody owns what a policy wrote, but whoever sent the request.
    let managers = made["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
    assert!(managers <= 1, "{made}");
}

#[tokio::test]
async fn json_patches_are_applied_in_order_and_may_test() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mutations = json!([
        patch(
            "[JSONPatch{op: 'test', path: '/data/size', value: 'small'}, JSONPatch{op: 'replace', path: '/data/size', value: 'large'}]"
        ),
        patch(
            "has(object.metadata.labels) ? [JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/size'), value: variables.size}] : [JSONPatch{op: 'add', path: '/metadata/labels', value: {'example.com/size': variables.size}}]"
        ),
    ]);
    let variables = json!({"variables": [{"name": "size", "expression": "string(object.data.size)"}]});
    bind(&admin, "size.example.com", &rule("", "configmaps"), mutations, variables).await;
    let sized = |size: &str| json!({"metadata": {"name": format!("m-{size}")}, "data": {"size": size}});
    in_force(&admin, CONFIG_MAPS, sized("small"), |answer| answer.text_whole().contains("example.com/size"))
        .await;
    // The second mutation sees what the first has made, a failed test changes nothing.
    let small = admin.post(CONFIG_MAPS, sized("small")).await.ok();
    assert_eq!(
        (&small["data"]["size"], &small["metadata"]["labels"]["example.com/size"]),
        (&json!("large"), &json!("large"))
    );
    let huge = admin.post(CONFIG_MAPS, sized("huge")).await.ok();
    assert_eq!(
        (&huge["data"]["size"], &huge["metadata"]["labels"]["example.com/size"]),
        (&json!("huge"), &json!("huge"))
    );
}

#[tokio::test]
async fn mutated_objects_are_judged_like_any_other() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let about = rule("apps", "deployments");
    let check = async |name: &str, mutation: Value, code: u16, expected: &str| {
        bind(&admin, name, &about, json!([mutation]), json!({})).await;
        in_force(&admin, DEPLOYMENTS, workload("w", 1), |answer| {
            answer.code == code && answer.text_whole().contains(expected)
        })
        .await;
        admin.delete(&format!("{BINDINGS}/{name}")).await.ok();
        in_force(&admin, DEPLOYMENTS, workload("w", 1), |answer| answer.code == 201).await;
    };
    check("negative", apply("Object{spec: Object.spec{replicas: -1}}"), 422, "spec.replicas").await;
    check(
        "unknown",
        apply("Object{spec: Object.spec{nope: 1}}"),
        403,
        ".spec.nope: field not declared in schema",
    )
    .await;
    check(
        "atomic",
        apply("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}"),
        403,
        "may not mutate atomic arrays, maps or structs: .spec.selector",
    )
    .await;
    check("misnamed", apply("Object{spec: Object.status{replicas: 1}}"), 403, "unexpected type name").await;
    check(
        "failing",
        apply("Object{spec: Object.spec{replicas: object.spec.nope}}"),
        403,
        "resulted in error: no such key: nope",
    )
    .await;
}

/// The first wants to see what the second does; the second does not care.
#[tokio::test]
async fn policies_are_reinvoked_if_needed_and_asked_with_parameters() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let about = rule("", "configmaps");
    let counted = "Object{metadata: Object.metadata{annotations: {'seen': has(object.data) ? string(object.data.size()) : '0'}}}";
    bind(&admin, "a-count", &about, json!([apply(counted)]), json!({"reinvocationPolicy": "IfNeeded"})).await;
    let added = json!([patch(
        "has(object.data) ? [JSONPatch{op: 'add', path: '/data/added', value: 'yes'}] : [JSONPatch{op: 'add', path: '/data', value: {'added': 'yes'}}]"
    )]);
    let skipping = json!({"matchConditions": [{"name": "skip", "expression": "!object.metadata.name.startsWith('skip')"}]});
    bind(&admin, "b-add", &about, added, skipping).await;
    let bare = |name: &str| json!({"metadata": {"name": name}});
    in_force(&admin, CONFIG_MAPS, bare("m"), |answer| {
        answer.text_whole().contains("\"added\":\"yes\"") && answer.text_whole().contains("\"seen\":\"1\"")
    })
    .await;
    let skipped = admin.post(CONFIG_MAPS, bare("skip")).await.ok();
    assert_eq!((&skipped["data"], &skipped["metadata"]["annotations"]["seen"]), (&Value::Null, &json!("0")));
    // Parameters, of another namespace.
    admin.post("/api/v1/namespaces", bare("settings")).await.ok();
    admin
        .post(
            "/api/v1/namespaces/settings/configmaps",
            json!({"metadata": {"name": "p"}, "data": {"team": "red"}}),
        )
        .await
        .ok();
    let spec = json!({"matchConstraints": {"resourceRules": [rule("", "secrets")]}, "reinvocationPolicy": "Never",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "mutations": [apply("Object{metadata: Object.metadata{labels: {'team': params.data.team}}}")]});
    admin.post(POLICIES, json!({"metadata": {"name": "team"}, "spec": spec})).await.ok();
    let reference = json!({"name": "p", "namespace": "settings", "parameterNotFoundAction": "Deny"});
    admin
        .post(
            BINDINGS,
            json!({"metadata": {"name": "team"}, "spec": {"policyName": "team", "paramRef": reference}}),
        )
        .await
        .ok();
    in_force(&admin, "/api/v1/namespaces/default/secrets", bare("s"), |answer| {
        answer.text_whole().contains("\"team\":\"red\"")
    })
    .await;
}

#[tokio::test]
async fn policy_about_another_version_changes_the_version_of_the_request() {
    const OLD: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let about = json!({"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
        "resources": ["horizontalpodautoscalers"]});
    let calm =
        "[JSONPatch{op: 'replace', path: '/spec/metrics/0/resource/target/averageUtilization', value: 40}]";
    bind(&admin, "calm.example.com", &about, json!([patch(calm)]), json!({})).await;
    let autoscaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 90,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    in_force(&admin, OLD, autoscaler.clone(), |answer| {
        answer.text_whole().contains("\"targetCPUUtilizationPercentage\":40")
    })
    .await;
    let made = admin.post(OLD, autoscaler).await.ok();
    assert_eq!(made["apiVersion"], "autoscaling/v1", "{made}");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 40, "{made}");
}
