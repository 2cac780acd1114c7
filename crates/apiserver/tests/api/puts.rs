//! PUT: what it may create, and when it must say which version it changes.

use serde_json::{Value, json};

use crate::cluster::*;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn named(name: &str, mut more: Value) -> Value {
    more["metadata"] = json!({"name": name});
    more
}

#[tokio::test]
async fn some_kinds_are_created_by_a_put() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for (collection, object) in [
        (LEASES.to_owned(), named("new", json!({"spec": {"holderIdentity": "me"}}))),
        (SERVICES.to_owned(), named("new", json!({"spec": {"ports": [{"port": 80}]}}))),
        ("/api/v1/namespaces/default/endpoints".to_owned(), named("new", json!({}))),
        ("/api/v1/namespaces/default/limitranges".to_owned(), named("new", json!({"spec": {"limits": []}}))),
        (format!("{rbac}/namespaces/default/roles"), named("new", json!({"rules": []}))),
        (format!("{rbac}/clusterroles"), named("new", json!({"rules": []}))),
    ] {
        let path = format!("{collection}/new");
        let made = admin.put(&path, object.clone()).await;
        assert_eq!(made.code, 201, "{}", made.text());
        assert!(made.body["metadata"]["uid"].is_string(), "{}", made.text());
        let kept = admin.get(&path).await.ok();
        assert_eq!(kept["metadata"]["uid"], made.body["metadata"]["uid"]);
        let again = admin.put(&path, kept).await;
        assert_eq!(again.code, 200, "{}", again.text());
    }
    // All others say that there is nothing to change, and so does a version of something that is gone.
    for path in [format!("{CONFIG_MAPS}/new"), format!("{PODS}/new")] {
        let object = if path.contains("pods") { pod("new") } else { config_map("new") };
        admin.put(&path, object).await.refused(404, "NotFound");
    }
    let gone = json!({"metadata": {"name": "gone", "resourceVersion": "1"}, "spec": {}});
    admin.put(&format!("{LEASES}/gone"), gone).await.refused(404, "NotFound");
}

#[tokio::test]
async fn some_kinds_are_not_changed_blindly() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = named("b", json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}));
    for (collection, object) in
        [(LEASES, named("b", json!({"spec": {"holderIdentity": "me"}}))), (budgets, budget)]
    {
        let made = admin.post(collection, object.clone()).await.ok();
        let path = format!("{collection}/b");
        let refused = admin.put(&path, object).await.refused(422, "Invalid");
        assert_eq!(refused["details"]["causes"][0]["field"], "metadata.resourceVersion", "{refused}");
        admin.put(&path, made).await.ok();
    }
    admin.post(CONFIG_MAPS, config_map("blind")).await.ok();
    admin.put(&format!("{CONFIG_MAPS}/blind"), config_map("blind")).await.ok();
}

/// To have no `create` must mean that one cannot create, whatever the method is called.
#[tokio::test]
async fn creating_by_put_or_apply_needs_the_right_to_create() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{
        "apiGroups": ["", "coordination.k8s.io"], "resources": ["leases", "configmaps"], "verbs": ["get", "update", "patch"],
    }]);
    admin.post(&format!("{rbac}/roles"), named("changer", json!({"rules": rules}))).await.ok();
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "changer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    admin.post(&format!("{rbac}/rolebindings"), named("changer", binding)).await.ok();
    admin.post(CONFIG_MAPS, config_map("there")).await.ok();
    let ann = cluster.user("ann", &[]);
    while ann.get(&format!("{CONFIG_MAPS}/there")).await.code == 403 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let apply = |name: &str| format!("{CONFIG_MAPS}/{name}?fieldManager=f&force=true");
    ann.patch(APPLY, &apply("there"), config_map("there")).await.ok();
    let refused = ann.patch(APPLY, &apply("new"), config_map("new")).await.refused(403, "Forbidden");
    let why = r#"User "ann" cannot create resource "configmaps" in API group "" in the namespace "default""#;
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
    ann.put(&format!("{LEASES}/new"), named("new", json!({"spec": {}}))).await.refused(403, "Forbidden");
    admin.get(&format!("{CONFIG_MAPS}/new")).await.refused(404, "NotFound");
}

/// The selector of a budget is replaced, not merged, by a strategic merge patch.
#[tokio::test]
async fn patch_strategy_replace() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = named("b", json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}));
    admin.post(budgets, budget).await.ok();
    let patch = json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}});
    let patched = admin.patch(STRATEGIC, &format!("{budgets}/b"), patch).await.ok();
    assert_eq!(patched["spec"]["selector"], json!({"matchLabels": {"c": "d"}}));
    assert_eq!(patched["spec"]["minAvailable"], 1);
}
