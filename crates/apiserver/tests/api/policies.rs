//! ValidatingAdmissionPolicies: the steps of upstream's conformance tests, and what else bindings can ask for.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::*;

pub const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
pub const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

pub fn workload(name: &str, replicas: i64) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "nginx"}}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "nginx"}},
        "template": {"metadata": {"labels": {"app": "nginx"}},
            "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]}}}})
}

pub fn rule(group: &str, resource: &str) -> Value {
    json!({"operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]})
}

/// A policy about this resource, with these fields of its spec besides.
pub fn policy(name: &str, rule: &Value, fields: Value) -> Value {
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

pub fn binding(name: &str, policy: &str, fields: Value) -> Value {
    let mut spec = json!({"policyName": policy, "validationActions": ["Deny"]});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Policies hold a moment after they are written: until what is tried here, without effect, shows it.
pub async fn in_force(client: &Client, path: &str, probe: Value, shows: impl Fn(&Answer) -> bool) {
    let mut last = String::new();
    for _ in 0..3000 {
        let answer = client.post(&format!("{path}?dryRun=All"), probe.clone()).await;
        if shows(&answer) {
            return;
        }
        last = answer.text();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the policy is never in force: {last}");
}

async fn checked(client: &Client, name: &str) -> Value {
    for _ in 0..3000 {
        let policy = client.get(&format!("{POLICIES}/{name}")).await.ok();
        if policy["status"]["observedGeneration"] == policy["metadata"]["generation"] {
            return policy["status"]["typeChecking"].clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the types of {name} are never checked");
}

/// Upstream: "should validate against a Deployment".
#[tokio::test]
async fn policy_validates_a_deployment() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let label = json!({"metadata": {"labels": {"unique": "true"}}});
    admin.patch(MERGE, "/api/v1/namespaces/default", label).await.ok();
    let selected = json!({"namespaceSelector": {"matchLabels": {"unique": "true"}}});
    let mut made = policy(
        "wants.example.com",
        &rule("apps", "deployments"),
        json!({"validations": [
            {"expression": "object.spec.replicas > 1",
             "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas"},
            {"expression": "namespaceObject.metadata.name == 'default'", "message": "Internal error!"},
        ]}),
    );
    made["spec"]["matchConstraints"]["namespaceSelector"] = selected["namespaceSelector"].clone();
    admin.post(POLICIES, made).await.ok();
    admin
        .post(BINDINGS, binding("b.example.com", "wants.example.com", json!({"matchResources": selected})))
        .await
        .ok();
    in_force(&admin, DEPLOYMENTS, workload("marker", 1), |answer| answer.code == 422).await;
    let refused = admin.post(DEPLOYMENTS, workload("marker", 1)).await.refused(422, "Invalid");
    // A message expression that fails gives way to the next best message.
    assert_eq!(
        refused["message"],
        "deployments.apps \"marker\" is forbidden: ValidatingAdmissionPolicy 'wants.example.com' with binding \
         'b.example.com' denied request: failed expression: object.spec.replicas > 1"
    );
    assert_eq!(refused["details"]["kind"], "deployments");
    admin.post(DEPLOYMENTS, workload("replicated", 2)).await.ok();
    admin.post(REPLICA_SETS, workload("non-replicated", 1)).await.ok();
    admin.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.ok();
    admin.post("/apis/apps/v1/namespaces/other/deployments", workload("free", 1)).await.ok();
    // The policy and its binding are nobody's business, least of all their own.
    admin.delete(&format!("{BINDINGS}/b.example.com")).await.ok();
    for _ in 0..3000 {
        if admin.post(&format!("{DEPLOYMENTS}?dryRun=All"), workload("late", 1)).await.code == 201 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a policy without a binding goes on refusing");
}

/// Upstream: "should allow expressions to refer variables."
#[tokio::test]
async fn expressions_refer_to_variables() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let fields = json!({
        "variables": [
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"},
        ],
        "validations": [
            {"expression": "variables.replicas > 1", "messageExpression": "'got ' + string(variables.replicas)"},
            {"expression": "variables.oddReplicas", "reason": "Forbidden", "message": "must be odd"},
        ],
    });
    admin.post(POLICIES, policy("odd.example.com", &rule("apps", "deployments"), fields)).await.ok();
    admin.post(BINDINGS, binding("odd", "odd.example.com", json!({}))).await.ok();
    in_force(&admin, DEPLOYMENTS, workload("marker", 1), |answer| answer.text().contains("got 1")).await;
    admin.post(DEPLOYMENTS, workload("replicated", 3)).await.ok();
    let refused = admin.post(DEPLOYMENTS, workload("even", 4)).await.refused(403, "Forbidden");
    assert!(refused["message"].as_str().unwrap().ends_with("denied request: must be odd"), "{refused}");
    let scaled =
        admin.patch(MERGE, &format!("{DEPLOYMENTS}/replicated"), json!({"spec": {"replicas": 2}})).await;
    scaled.refused(403, "Forbidden");
}

/// Upstream: "should type check validation expressions".
#[tokio::test]
async fn expressions_are_type_checked() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let right = json!({"validations": [{"expression": "object.spec.replicas > 1"}]});
    admin.post(POLICIES, policy("right.example.com", &rule("apps", "deployments"), right)).await.ok();
    assert_eq!(checked(&admin, "right.example.com").await, json!({}));
    let confused = json!({
        "variables": [{"name": "replicas", "expression": "object.spec.replicas"}],
        "validations": [
            {"expression": "variables.replicas > '1'",
             "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas"},
        ],
    });
    admin.post(POLICIES, policy("confused.example.com", &rule("apps", "deployments"), confused)).await.ok();
    let warnings = checked(&admin, "confused.example.com").await["expressionWarnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 2, "{warnings}");
    let warned = |index: usize, field: &str, why: &str| {
        assert_eq!(warnings[index]["fieldRef"], field);
        let warning = warnings[index]["warning"].as_str().unwrap();
        assert!(warning.starts_with("apps/v1, Kind=Deployment: ") && warning.contains(why), "{warning}");
    };
    warned(
        0,
        "spec.validations[0].expression",
        "found no matching overload for '_>_' applied to '(int, string)'",
    );
    warned(
        1,
        "spec.validations[0].messageExpression",
        "found no matching overload for '_+_' applied to '(string, int)'",
    );
}

fn cron_tabs() -> Value {
    let spec = json!({"type": "object", "properties": {
        "cronSpec": {"type": "string"}, "image": {"type": "string"}, "replicas": {"type": "integer"}}});
    json!({"metadata": {"name": "crontabs.stable.example.com"}, "spec": {
        "group": "stable.example.com", "scope": "Namespaced",
        "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "shortNames": ["ct"]},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}})
}

/// Upstream: "should type check a CRD".
#[tokio::test]
async fn expressions_about_a_custom_kind_are_type_checked() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", cron_tabs()).await.ok();
    for _ in 0..3000 {
        if admin.get("/openapi/v3/apis/stable.example.com/v1").await.code == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let about = rule("stable.example.com", "crontabs");
    let right = json!({"validations": [{"expression": "object.spec.replicas > 1 && object.metadata.labels.size() > 0"}]});
    admin.post(POLICIES, policy("right-crd.example.com", &about, right)).await.ok();
    assert_eq!(checked(&admin, "right-crd.example.com").await, json!({}));
    let confused = json!({"validations": [
        {"expression": "object.spec.replicas > '1'"}, {"expression": "object.spec.maxRetries < 10"}]});
    admin.post(POLICIES, policy("confused-crd.example.com", &about, confused)).await.ok();
    let warnings = checked(&admin, "confused-crd.example.com").await["expressionWarnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 2, "{warnings}");
    assert_eq!(warnings[1]["fieldRef"], "spec.validations[1].expression");
    assert!(warnings[1]["warning"].as_str().unwrap().contains("undefined field 'maxRetries'"), "{warnings}");
    // Touching it is another generation, which is checked again, also by server-side apply.
    let apply = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "spec": {"auditAnnotations": [{"key": "key", "valueExpression": "\"42\""}]}});
    let path = format!("{POLICIES}/confused-crd.example.com?fieldManager=e2e");
    let applied = admin.patch(APPLY, &path, apply).await.ok();
    assert_eq!(applied["metadata"]["generation"], 2, "{applied}");
    assert_eq!(checked(&admin, "confused-crd.example.com").await["expressionWarnings"], warnings);
}

#[tokio::test]
async fn policy_with_wrong_expressions_is_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let wrong = json!({"validations": [{"expression": "object.spec.replicas >"}]});
    let refused = admin.post(POLICIES, policy("wrong", &rule("apps", "deployments"), wrong)).await;
    let refused = refused.refused(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.validations[0].expression", "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("compilation failed: ERROR: <input>:1:23"),
        "{refused}"
    );
}

#[tokio::test]
async fn parameters_come_by_name_or_selector_and_may_be_missing() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let fields = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.spec.replicas <= int(params.data.most)",
            "messageExpression": "'at most ' + params.data.most + ' says ' + params.metadata.name"}],
    });
    admin.post(POLICIES, policy("most.example.com", &rule("apps", "deployments"), fields)).await.ok();
    let by_name = json!({"paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"}});
    admin.post(BINDINGS, binding("by-name", "most.example.com", by_name)).await.ok();
    let missing =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    in_force(&admin, DEPLOYMENTS, workload("w", 1), |answer| answer.text().contains(missing)).await;
    let limit = |name: &str, most: &str| json!({"metadata": {"name": name, "labels": {"limit": "yes"}}, "data": {"most": most}});
    // A parameter holds from the moment it is written.
    admin.post(CONFIG_MAPS, limit("limit", "3")).await.ok();
    admin.post(DEPLOYMENTS, workload("three", 3)).await.ok();
    let refused = admin.post(DEPLOYMENTS, workload("four", 4)).await.refused(422, "Invalid");
    assert!(refused["message"].as_str().unwrap().ends_with("at most 3 says limit"), "{refused}");
    // All that a selector finds must hold; none that it finds is nothing to hold.
    admin.delete(&format!("{BINDINGS}/by-name")).await.ok();
    let selected = |value: &str| {
        json!({"paramRef": {"selector": {"matchLabels": {"limit": value}}, "namespace": "default",
            "parameterNotFoundAction": "Allow"}})
    };
    admin.post(BINDINGS, binding("none", "most.example.com", selected("no"))).await.ok();
    in_force(&admin, DEPLOYMENTS, workload("four", 4), |answer| answer.code == 201).await;
    admin.post(BINDINGS, binding("all", "most.example.com", selected("yes"))).await.ok();
    admin.post(CONFIG_MAPS, limit("tight", "2")).await.ok();
    in_force(&admin, DEPLOYMENTS, workload("three", 3), |answer| {
        answer.text().contains("at most 2 says tight")
    })
    .await;
    // A kind that is not served is a mistake of the policy.
    let unknown = json!({"paramKind": {"apiVersion": "nope.example.com/v1", "kind": "Nope"}, "validations": [{"expression": "true"}]});
    admin.post(POLICIES, policy("unknown", &rule("", "secrets"), unknown)).await.ok();
    let named = json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}});
    admin.post(BINDINGS, binding("unknown", "unknown", named)).await.ok();
    let secrets = "/api/v1/namespaces/default/secrets";
    in_force(&admin, secrets, json!({"metadata": {"name": "s"}}), |answer| {
        answer
            .text()
            .contains("failed to find resource referenced by paramKind: 'nope.example.com/v1, Kind=Nope'")
    })
    .await;
}

#[tokio::test]
async fn bindings_warn_or_audit_instead_of_refusing() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let fields = json!({"validations": [{"expression": "object.data.size() > 0", "message": "no data"}],
        "auditAnnotations": [{"key": "size", "valueExpression": "'size is ' + string(object.data.size())"}],
        "failurePolicy": "Ignore"});
    admin.post(POLICIES, policy("data.example.com", &rule("", "configmaps"), fields)).await.ok();
    let actions = json!({"validationActions": ["Warn", "Audit"]});
    admin.post(BINDINGS, binding("soft", "data.example.com", actions)).await.ok();
    let mut empty = config_map("empty");
    empty["data"] = json!({});
    let warning =
        "Validation failed for ValidatingAdmissionPolicy 'data.example.com' with binding 'soft': no data";
    in_force(&admin, CONFIG_MAPS, empty.clone(), |answer| {
        answer.code == 201 && answer.warnings().iter().any(|text| text.contains(warning))
    })
    .await;
    let metrics = admin.get("/metrics").await.text_whole();
    let counted = "apiserver_validating_admission_policy_check_total{policy=\"data.example.com\",policy_binding=\"soft\",enforcement_action=\"warn\"}";
    assert!(metrics.contains(counted), "{metrics}");
    // What cannot be evaluated (there is no data at all) is ignored, if the policy says so.
    empty["data"].take();
    assert!(admin.post(CONFIG_MAPS, empty).await.warnings().is_empty());
}

#[tokio::test]
async fn failure_conditions_exclusions_and_rights_are_honoured() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut made = policy(
        "strict.example.com",
        &rule("", "configmaps"),
        json!({
            "matchConditions": [{"name": "not-admin", "expression": "request.userInfo.username != 'root'"}],
            "validations": [
                {"expression": "object.data.owner == request.userInfo.username"},
                {"expression": "!authorizer.requestResource.check('delete').allowed() || object.metadata.name != 'mine'",
                 "reason": "Unauthorized", "message": "who may delete may not make mine"},
            ],
        }),
    );
    made["spec"]["matchConstraints"]["excludeResourceRules"] = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "resourceNames": ["excluded"]}]);
    made["spec"]["matchConstraints"]["objectSelector"] =
        json!({"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]});
    admin.post(POLICIES, made).await.ok();
    admin.post(BINDINGS, binding("strict", "strict.example.com", json!({}))).await.ok();
    // What cannot be evaluated refuses, and says which expression it was.
    let failed =
        "expression 'object.data.owner == request.userInfo.username' resulted in error: no such key: data";
    let without = json!({"metadata": {"name": "probe"}});
    in_force(&admin, CONFIG_MAPS, without.clone(), |answer| answer.text().contains(failed)).await;
    let owned = |name: &str| json!({"metadata": {"name": name}, "data": {"owner": "admin"}});
    admin.post(CONFIG_MAPS, owned("a")).await.ok();
    admin.post(CONFIG_MAPS, owned("mine")).await.refused(401, "Unauthorized");
    admin.post(CONFIG_MAPS, json!({"metadata": {"name": "excluded"}})).await.ok();
    admin.post(CONFIG_MAPS, json!({"metadata": {"name": "b", "labels": {"skip": "me"}}})).await.ok();
    cluster
        .user("root", &["system:masters"])
        .post(CONFIG_MAPS, json!({"metadata": {"name": "c"}}))
        .await
        .ok();
    // Deleting and binding are other operations, which can be refused as well.
    let fields =
        json!({"validations": [{"expression": "oldObject.metadata.name != 'a'", "message": "a stays"}]});
    let mut rule = rule("", "configmaps");
    rule["operations"] = json!(["DELETE"]);
    admin.post(POLICIES, policy("keep.example.com", &rule, fields)).await.ok();
    admin.post(BINDINGS, binding("keep", "keep.example.com", json!({}))).await.ok();
    for _ in 0..3000 {
        let answer = admin.delete(&format!("{CONFIG_MAPS}/a?dryRun=All")).await;
        if answer.text().contains("a stays") {
            admin.delete(&format!("{CONFIG_MAPS}/b")).await.ok();
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("deletion is never refused");
}

/// A policy that refuses everything could never be removed if it were asked about itself.
#[tokio::test]
async fn policies_never_apply_to_policies() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let all = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]});
    admin.post(POLICIES, policy("no", &all, json!({"validations": [{"expression": "false"}]}))).await.ok();
    admin.post(BINDINGS, binding("no", "no", json!({}))).await.ok();
    in_force(&admin, CONFIG_MAPS, config_map("probe"), |answer| answer.code == 422).await;
    admin.post(POLICIES, policy("other", &all, json!({"validations": [{"expression": "true"}]}))).await.ok();
    admin.patch(MERGE, &format!("{POLICIES}/no"), json!({"spec": {"failurePolicy": "Ignore"}})).await.ok();
    admin.delete(&format!("{BINDINGS}/no")).await.ok();
    admin.delete(&format!("{POLICIES}/no")).await.ok();
}

/// What `examples/policies` applies compiles, and does what its README says.
#[tokio::test]
async fn example_policies_act() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin
        .patch(MERGE, "/api/v1/namespaces/default", json!({"metadata": {"labels": {"guarded": "yes"}}}))
        .await
        .ok();
    admin.post(CONFIG_MAPS, json!({"metadata": {"name": "limit"}, "data": {"replicas": "2"}})).await.ok();
    let text = include_str!("../../../../examples/policies/policies.yaml");
    for document in text.split("\n---\n") {
        let plural = match document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap() {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
            "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
            "MutatingAdmissionPolicy" => "mutatingadmissionpolicies",
            _ => "mutatingadmissionpolicybindings",
        };
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        admin.send(http::Method::POST, &path, "application/yaml", document.to_owned()).await.ok();
    }
    let mut owned = workload("web", 3);
    in_force(&admin, DEPLOYMENTS, owned.clone(), |answer| answer.text().contains("needs the label")).await;
    owned["metadata"]["labels"]["owner"] = "ann".into();
    let refused = admin.post(DEPLOYMENTS, owned.clone()).await.refused(422, "Invalid");
    assert!(refused["message"].as_str().unwrap().ends_with("at most 2 replicas, not 3"), "{refused}");
    owned["spec"]["replicas"] = 2.into();
    in_force(&admin, DEPLOYMENTS, owned.clone(), |answer| answer.text().contains("made-by")).await;
    let made = admin.post(DEPLOYMENTS, owned).await.ok();
    assert_eq!(made["metadata"]["annotations"]["made-by"], "admin", "{made}");
}

/// Whoever writes through another version or group of the same kind does not get around the policy.
#[tokio::test]
async fn policy_holds_for_equivalent_versions_and_groups() {
    const OLD: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let about = |group: &str, version: &str, resource: &str| json!({"operations": ["CREATE"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]});
    let autoscalers = about("autoscaling", "v2", "horizontalpodautoscalers");
    let never = |message: &str, condition: &str| {
        json!({"validations": [{"expression": "false", "message": message}],
            "matchConditions": [{"name": "c", "expression": condition}]})
    };
    let busy = "object.spec.metrics.exists(m, m.resource.target.averageUtilization > 90) \
        && request.kind.version == 'v2' && request.requestKind.version == 'v1'";
    let noisy = "object.note == 'noise' && request.resource.group == 'events.k8s.io'";
    let mut exact = policy("exact.example.com", &autoscalers, never("exactly", "true"));
    exact["spec"]["matchConstraints"]["matchPolicy"] = "Exact".into();
    let busy = policy("busy.example.com", &autoscalers, never("too busy", busy));
    let noisy =
        policy("noisy.example.com", &about("events.k8s.io", "v1", "events"), never("too noisy", noisy));
    for (name, made) in [("exact", exact), ("busy", busy), ("noisy", noisy)] {
        admin.post(POLICIES, made).await.ok();
        let bound = binding(name, &format!("{name}.example.com"), json!({}));
        admin.post(BINDINGS, bound).await.ok();
    }
    let autoscaler = |name: &str, percentage: i64| {
        json!({"metadata": {"name": name}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": percentage,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
    };
    let event = |name: &str, message: &str| {
        json!({"metadata": {"name": name}, "message": message, "reason": "r", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}})
    };
    in_force(&admin, OLD, autoscaler("a", 95), |answer| answer.text_whole().contains("too busy")).await;
    in_force(&admin, EVENTS, event("a", "noise"), |answer| answer.text_whole().contains("too noisy")).await;
    admin.post(OLD, autoscaler("a", 50)).await.ok();
    admin.post(EVENTS, event("a", "music")).await.ok();
}
