//! Who may do what: RBAC, escalation, impersonation, reviews.

use minik8s_auth::User;
use serde_json::{Value, json};

use crate::cluster::*;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

fn role(name: &str, group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs}]})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

/// Rules are read from a watch, so they hold a moment after they are written.
async fn until_allowed(client: &Client, path: &str) {
    for _ in 0..3000 {
        if client.get(path).await.code != 403 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{path} is still forbidden");
}

async fn can(client: &Client, attributes: Value) -> bool {
    let review = json!({"spec": {"resourceAttributes": attributes}});
    let answer = client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await.ok();
    answer["status"]["allowed"] == true
}

#[tokio::test]
async fn nobody_may_anything_unless_told() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let refused = ann.get(CONFIG_MAPS).await.refused(403, "Forbidden");
    let text = "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!(refused["message"], text);
    ann.get("/api/v1/nodes").await.refused(403, "Forbidden");
    ann.get("/metrics").await.refused(403, "Forbidden");
    ann.post(CONFIG_MAPS, config_map("m")).await.refused(403, "Forbidden");
    // Unknown things are forbidden too: what exists is nobody's business.
    ann.get("/api/v1/namespaces/default/nothings").await.refused(403, "Forbidden");
    for open in ["/version", "/healthz", "/api", "/apis", "/openapi/v3", "/api/v1"] {
        ann.get(open).await.ok();
    }
    admin.post(ROLES, role("reader", "", &["configmaps"], &["get", "list", "watch"])).await.ok();
    admin.post(BINDINGS, binding("b", "Role", "reader", "ann")).await.ok();
    until_allowed(&ann, CONFIG_MAPS).await;
    ann.get(CONFIG_MAPS).await.ok();
    ann.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    for other in [
        "/api/v1/configmaps",
        "/api/v1/namespaces/kube-system/configmaps",
        "/api/v1/namespaces/default/secrets",
    ] {
        ann.get(other).await.refused(403, "Forbidden");
    }
    ann.delete(&format!("{CONFIG_MAPS}/m")).await.refused(403, "Forbidden");
    // Tricks with the path do not lead around the rules.
    for trick in [
        "/api/v1/namespaces/default/configmaps/../secrets",
        "/api/v1/namespaces/default/configmaps/..%2Fsecrets",
        "//api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default//secrets",
        "/api/v1/namespaces/default/configmaps%2F..%2Fsecrets",
        "/api/v1/namespaces/default%2F/secrets",
        "/api/v1/namespaces/default/secrets/x/..",
        "/api/v1/secrets?namespace=default",
        "/api/v1/watch/secrets",
        "/api/v1/namespaces/default/secrets?watch=1",
        "/api/v1/namespaces/%2e/secrets",
        "/api//v1/secrets",
    ] {
        let answer = ann.get(trick).await;
        assert!(matches!(answer.code, 403 | 404), "{trick}: {}", answer.text());
        answer.assert_status();
    }
    let anonymous = cluster.as_user(User::anonymous());
    anonymous.get("/version").await.ok();
    anonymous.get("/readyz").await;
    let refused = anonymous.get(PODS).await.refused(403, "Forbidden");
    assert!(refused["message"].as_str().unwrap().contains("system:anonymous"), "{refused}");
}

#[tokio::test]
async fn resource_names_hold_whatever_the_field_selector() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let mut one = role("one", "", &["secrets"], &verbs);
    one["rules"][0]["resourceNames"] = json!(["allowed"]);
    admin.post(ROLES, one).await.ok();
    admin.post(BINDINGS, binding("one", "Role", "one", "ann")).await.ok();
    let secrets = "/api/v1/namespaces/default/secrets";
    for name in ["allowed", "other"] {
        admin.post(secrets, json!({"metadata": {"name": name}})).await.ok();
    }
    until_allowed(&ann, &format!("{secrets}/allowed")).await;
    let selected = format!("{secrets}?fieldSelector=metadata.name%3Dallowed");
    ann.post(&selected, json!({"metadata": {"name": "made-up"}})).await.refused(403, "Forbidden");
    admin.get(&format!("{secrets}/made-up")).await.refused(404, "NotFound");
    let other = format!("{secrets}/other?fieldSelector=metadata.name%3Dallowed");
    ann.get(&other).await.refused(403, "Forbidden");
    ann.patch(MERGE, &other, json!({"data": {}})).await.refused(403, "Forbidden");
    ann.delete(&other).await.refused(403, "Forbidden");
    // Where the selector really chooses, it names what it chooses.
    assert_eq!(ann.get(&selected).await.ok()["items"].as_array().map(Vec::len), Some(1));
    ann.get(secrets).await.refused(403, "Forbidden");
    ann.delete(secrets).await.refused(403, "Forbidden");
    ann.delete(&selected).await.ok();
    admin.get(&format!("{secrets}/allowed")).await.refused(404, "NotFound");
    admin.get(&format!("{secrets}/other")).await.ok();
}

#[tokio::test]
async fn pods_exec_by_get_needs_create() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let doors = ["pods/exec", "pods/attach", "pods/portforward", "pods/log", "pods/proxy"];
    admin.post(ROLES, role("looks", "", &doors, &["get"])).await.ok();
    admin.post(BINDINGS, binding("looks", "Role", "looks", "ann")).await.ok();
    admin.post(PODS, pod("p")).await.ok();
    until_allowed(&ann, &format!("{PODS}/p/log")).await;
    for door in ["exec?command=id&stdout=1", "attach?stdout=1", "portforward?ports=80"] {
        let refused = ann.get(&format!("{PODS}/p/{door}")).await.refused(403, "Forbidden");
        let name = door.split('?').next().unwrap();
        let text = format!("cannot create resource \"pods/{name}\"");
        assert!(refused["message"].as_str().unwrap().contains(&text), "{refused}");
    }
    // Proxy keeps the verbs of its methods.
    assert_ne!(ann.get(&format!("{PODS}/p/proxy/")).await.code, 403);
    ann.post(&format!("{PODS}/p/proxy/"), json!({})).await.refused(403, "Forbidden");
    admin.post(ROLES, role("acts", "", &doors, &["create"])).await.ok();
    admin.post(BINDINGS, binding("acts", "Role", "acts", "ann")).await.ok();
    until_allowed(&ann, &format!("{PODS}/p/exec?command=id&stdout=1")).await;
    let answer = ann.get(&format!("{PODS}/p/exec?command=id&stdout=1")).await;
    assert_eq!(answer.code, 400, "the pod has no node yet: {}", answer.text());
}

#[tokio::test]
async fn rights_cannot_be_made_up() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let rbac = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    let group = "rbac.authorization.k8s.io";
    let mut manager = role("manager", group, &rbac, &["get", "list", "create", "update", "patch"]);
    manager["rules"]
        .as_array_mut()
        .unwrap()
        .push(json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}));
    admin.post(CLUSTER_ROLES, manager).await.ok();
    admin.post(CLUSTER_BINDINGS, binding("manager", "ClusterRole", "manager", "ann")).await.ok();
    until_allowed(&ann, ROLES).await;
    // What one has one may give; more one may not.
    ann.post(ROLES, role("fine", "", &["configmaps"], &["get"])).await.ok();
    let refused = ann.post(ROLES, role("more", "", &["secrets"], &["get"])).await.refused(403, "Forbidden");
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );
    ann.post(CLUSTER_ROLES, role("all", "*", &["*"], &["*"])).await.refused(403, "Forbidden");
    let patch = json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    ann.patch(MERGE, &format!("{ROLES}/fine"), patch).await.refused(403, "Forbidden");
    ann.patch(MERGE, &format!("{ROLES}/fine"), json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    let applied = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "applied"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    });
    ann.patch(APPLY, &format!("{ROLES}/applied?fieldManager=f"), applied).await.refused(403, "Forbidden");
    ann.post(CLUSTER_BINDINGS, binding("me", "ClusterRole", "cluster-admin", "ann"))
        .await
        .refused(403, "Forbidden");
    ann.post(BINDINGS, binding("me", "ClusterRole", "cluster-admin", "ann")).await.refused(403, "Forbidden");
    ann.post(BINDINGS, binding("mine", "Role", "fine", "bob")).await.ok();
    ann.post(BINDINGS, binding("none", "Role", "missing", "bob")).await.refused(404, "NotFound");
    // With `bind` or `escalate` it is allowed.
    admin.post(CLUSTER_ROLES, role("binder", group, &["clusterroles"], &["bind", "escalate"])).await.ok();
    admin.post(CLUSTER_BINDINGS, binding("binder", "ClusterRole", "binder", "ann")).await.ok();
    for _ in 0..3000 {
        if can(&ann, json!({"verb": "bind", "group": group, "resource": "clusterroles", "name": "view"}))
            .await
        {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    ann.post(BINDINGS, binding("view", "ClusterRole", "view", "ann")).await.ok();
    ann.post(CLUSTER_ROLES, role("escalated", "", &["secrets"], &["get"])).await.ok();
    let mut other = binding("view", "ClusterRole", "edit", "ann");
    other["metadata"]["resourceVersion"] = json!("");
    ann.put(&format!("{BINDINGS}/view"), other).await.refused(422, "Invalid");
}

#[tokio::test]
async fn acting_as_someone_else() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let mine = ann.post(whoami, json!({})).await.ok();
    assert_eq!(mine["status"]["userInfo"]["username"], "ann");
    let as_bob = admin
        .header("impersonate-user", "bob")
        .header("impersonate-group", "dev")
        .header("impersonate-extra-team%2fx", "y");
    let info = as_bob.post(whoami, json!({})).await.ok()["status"]["userInfo"].clone();
    assert_eq!(
        (&info["username"], &info["groups"]),
        (&json!("bob"), &json!(["dev", "system:authenticated"]))
    );
    assert_eq!(info["extra"]["team/x"], json!(["y"]));
    as_bob.get(PODS).await.refused(403, "Forbidden");
    ann.header("impersonate-user", "bob").get("/version").await.refused(403, "Forbidden");
    ann.header("impersonate-user", "ann").get("/version").await.refused(403, "Forbidden");
    admin.header("impersonate-group", "dev").get("/version").await.refused(400, "BadRequest");
    let account = admin
        .header("impersonate-user", "system:serviceaccount:default:sa")
        .post(whoami, json!({}))
        .await
        .ok();
    let groups = account["status"]["userInfo"]["groups"].to_string();
    assert!(groups.contains("system:serviceaccounts:default"), "{groups}");
    // A header that cannot be read must not be passed over: it would leave the caller's own rights.
    let mut request =
        http::Request::builder().uri(PODS).body(http_body_util::Full::new(bytes::Bytes::new())).unwrap();
    request.headers_mut().insert("impersonate-user", http::HeaderValue::from_bytes(b"b\xffb").unwrap());
    let service = cluster.server.local(User::authenticated("admin", &["system:masters"]));
    let answer = tower::ServiceExt::oneshot(service, request).await.unwrap();
    assert_eq!(answer.status(), 400);
}

#[tokio::test]
async fn reviews() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let pods = json!({"verb": "list", "resource": "pods", "namespace": "default"});
    assert!(can(&admin, pods.clone()).await && !can(&ann, pods.clone()).await);
    admin.post(ROLES, role("pods", "", &["pods"], &["list"])).await.ok();
    admin.post(BINDINGS, binding("b", "Role", "pods", "ann")).await.ok();
    until_allowed(&ann, PODS).await;
    assert!(can(&ann, pods.clone()).await);
    let review = json!({"spec": {"user": "ann", "resourceAttributes": pods}});
    let of_ann = admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review.clone()).await.ok();
    assert_eq!(of_ann["status"]["allowed"], true);
    ann.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review.clone())
        .await
        .refused(403, "Forbidden");
    let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    assert_eq!(admin.post(local, review.clone()).await.ok()["status"]["allowed"], true);
    let elsewhere = "/apis/authorization.k8s.io/v1/namespaces/kube-system/localsubjectaccessreviews";
    let answer = admin.post(elsewhere, review).await;
    assert!(matches!(answer.code, 400 | 422), "{}", answer.text());
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}}});
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(ann.post(own, path).await.ok()["status"]["allowed"], true);
    let rules = json!({"spec": {"namespace": "default"}});
    let rules = ann.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", rules).await.ok();
    let found = rules["status"]["resourceRules"]
        .as_array()
        .unwrap()
        .iter()
        .any(|rule| rule["resources"] == json!(["pods"]));
    assert!(found, "{rules}");
    for wrong in [
        json!({}),
        json!({"spec": {}}),
        json!({"spec": "x"}),
        json!({"spec": {"resourceAttributes": 5}}),
        json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}),
    ] {
        let answer = ann.post(own, wrong.clone()).await;
        answer.assert_status();
        assert!(matches!(answer.code, 400 | 422), "{wrong}: {}", answer.text());
    }
    let nobody = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let answer = admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", nobody).await;
    assert!(matches!(answer.code, 400 | 422), "{}", answer.text());
}
