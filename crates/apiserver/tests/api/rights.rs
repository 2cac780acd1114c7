//! Rights beside those on the object that is written: on the parameters of policies, on the audiences of tokens.

use serde_json::{Value, json};

use crate::cluster::*;
use crate::policies::{BINDINGS, POLICIES, binding, policy, rule};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const IN_DEFAULT: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const GROUP: &str = "rbac.authorization.k8s.io";

/// Gives a user a role of this name with these rules, in all of the cluster or below `place`.
async fn grant(admin: &Client, place: &str, user: &str, name: &str, rules: Value) {
    let (roles, bindings, kind) = match place {
        RBAC => ("clusterroles", "clusterrolebindings", "ClusterRole"),
        _ => ("roles", "rolebindings", "Role"),
    };
    admin.post(&format!("{place}/{roles}"), json!({"metadata": {"name": name}, "rules": rules})).await.ok();
    let bound = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}]});
    admin.post(&format!("{place}/{bindings}"), bound).await.ok();
}

/// Rules hold a moment after they are written.
async fn in_force(ask: impl AsyncFn() -> Answer, code: u16) -> Answer {
    for _ in 0..3000 {
        let answer = ask().await;
        if answer.code == code {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    ask().await
}

/// Messages of a policy may say what its parameters hold.
#[tokio::test]
async fn parameters_are_for_those_who_may_read_them() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let rules = json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    grant(&admin, RBAC, "ann", "policies", rules).await;
    let fields = |kind: Value| {
        let mut fields = json!({"validations": [{"expression": "true"}]});
        fields["paramKind"] = kind;
        fields
    };
    let about = |name: &str, kind: Value| policy(name, &rule("apps", "deployments"), fields(kind));
    let plain = about("plain.example.com", Value::Null);
    in_force(async || ann.post(POLICIES, plain.clone()).await, 201).await.ok();
    let secrets = json!({"apiVersion": "v1", "kind": "Secret"});
    let refused = ann.post(POLICIES, about("s.example.com", secrets.clone())).await.refused(422, "Invalid");
    let text = "must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)";
    assert!(refused["message"].as_str().unwrap().contains(text), "{refused}");
    let unknown = json!({"apiVersion": "v1", "kind": "Nothing"});
    ann.post(POLICIES, about("u.example.com", unknown)).await.refused(422, "Invalid");
    let path = format!("{POLICIES}/plain.example.com");
    ann.patch(MERGE, &path, json!({"spec": {"paramKind": secrets}})).await.refused(422, "Invalid");
    let mutating = POLICIES.replace("validating", "mutating");
    let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression":
        "[JSONPatch{op: \"add\", path: \"/metadata/labels\", value: {}}]"}});
    let spec = json!({"paramKind": secrets, "reinvocationPolicy": "Never", "mutations": [mutation],
        "matchConstraints": {"resourceRules": [rule("apps", "deployments")]}});
    let changing = json!({"metadata": {"name": "m.example.com"}, "spec": spec});
    ann.post(&mutating, changing.clone()).await.refused(422, "Invalid");
    // Who changes something else of another's policy need not read them.
    admin.post(POLICIES, about("s.example.com", secrets)).await.ok();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    ann.patch(MERGE, &format!("{POLICIES}/s.example.com"), label).await.ok();
    let param = json!({"name": "s", "namespace": "default", "parameterNotFoundAction": "Allow"});
    let bound = binding("b", "s.example.com", json!({"paramRef": param}));
    let refused = ann.post(BINDINGS, bound.clone()).await.refused(422, "Invalid");
    let text = "does not have \"get\" permission on the object referenced by paramRef";
    assert!(refused["message"].as_str().unwrap().contains(text), "{refused}");
    // One Secret is enough for the binding, and not for the policy.
    let one =
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"], "verbs": ["get"]}]);
    grant(&admin, IN_DEFAULT, "ann", "one", one).await;
    in_force(async || ann.post(BINDINGS, bound.clone()).await, 201).await.ok();
    ann.post(&mutating, changing.clone()).await.refused(422, "Invalid");
    // Who may `get` each of them may not yet learn of those that they cannot name.
    let some = json!({"selector": {}, "namespace": "default", "parameterNotFoundAction": "Allow"});
    let selecting = binding("l", "s.example.com", json!({"paramRef": some}));
    let refused = ann.post(BINDINGS, selecting.clone()).await.refused(422, "Invalid");
    let text = "does not have \"list\" permission on the object referenced by paramRef";
    assert!(refused["message"].as_str().unwrap().contains(text), "{refused}");
    let all = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    grant(&admin, RBAC, "ann", "all", all).await;
    in_force(async || ann.post(&mutating, changing.clone()).await, 201).await.ok();
    ann.post(BINDINGS, selecting.clone()).await.refused(422, "Invalid");
    let list = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    grant(&admin, IN_DEFAULT, "ann", "list", list).await;
    in_force(async || ann.post(BINDINGS, selecting.clone()).await, 201).await.ok();
}

/// Policies and webhooks are asked about tokens as about other writes.
#[tokio::test]
async fn token_can_be_refused_by_a_policy() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let about = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["serviceaccounts/token"]});
    let condition = "request.kind.kind == 'TokenRequest' && !('evil' in object.spec.audiences)";
    let fields = json!({"validations": [{"expression": condition, "message": "not for them"}]});
    admin.post(POLICIES, policy("tokens.example.com", &about, fields)).await.ok();
    admin.post(BINDINGS, binding("tokens", "tokens.example.com", json!({}))).await.ok();
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let ask = async |audience: &str| admin.post(token, json!({"spec": {"audiences": [audience]}})).await;
    let refused = in_force(async || ask("evil").await, 422).await.refused(422, "Invalid");
    assert!(refused["message"].as_str().unwrap().ends_with("not for them"), "{refused}");
    ask("good").await.ok();
}

/// A stolen node is its pods to nobody but those whom they name.
#[tokio::test]
async fn node_asks_for_audiences_of_its_pods_alone() {
    let cluster = Cluster::start().await;
    let (admin, node) = (cluster.admin(), cluster.user("system:node:a", &["system:nodes"]));
    admin.post("/api/v1/nodes", json!({"metadata": {"name": "a"}})).await.ok();
    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "a".into();
    bound["spec"]["volumes"] = json!([
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}},
        {"name": "d", "csi": {"driver": "csi.example.com"}},
    ]);
    admin.post(PODS, bound).await.ok();
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let ask = async |audiences: Value| {
        node.post(token, json!({"spec": {"audiences": audiences, "boundObjectRef": reference}})).await
    };
    ask(json!(["vault"])).await.ok();
    // The token that every pod has is for the API server.
    ask(json!([])).await.ok();
    let refused = ask(json!(["other"])).await.refused(403, "Forbidden");
    let text = "audience \"other\" not found in pod spec volume";
    assert!(refused["message"].as_str().unwrap().ends_with(text), "{refused}");
    ask(json!(["vault", "other"])).await.refused(403, "Forbidden");
    ask(json!(["of-driver"])).await.refused(403, "Forbidden");
    let spec = json!({"tokenRequests": [{"audience": "of-driver"}], "volumeLifecycleModes": ["Ephemeral"]});
    let driver = json!({"metadata": {"name": "csi.example.com"}, "spec": spec});
    admin.post("/apis/storage.k8s.io/v1/csidrivers", driver).await.ok();
    ask(json!(["of-driver"])).await.ok();
    let right = json!([{"apiGroups": [""], "resources": ["other"], "verbs": ["request-serviceaccounts-token-audience"]}]);
    grant(&admin, RBAC, "system:node:a", "other", right).await;
    in_force(async || ask(json!(["other"])).await, 201).await.ok();
    // Others are not asked for whom.
    admin.post(token, json!({"spec": {"audiences": ["any", "other"]}})).await.ok();
}
