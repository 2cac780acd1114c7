//! Routes of the Gateway API whose parent is a Service: honoured by the proxies of pods and by the node's own.

use serde_json::{Value, json};

use super::shop::Shop;

fn service(name: &str, selector: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": selector, "ports": [{"name": "http", "port": 9080}]}})
}

fn route(name: &str, parent: &Value, rules: &Value) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name},
        "spec": {"parentRefs": [parent], "rules": rules}})
}

/// A producer's route with a match, a rewritten path and weights; and a consumer's, for its own namespace alone.
pub fn routes_with_a_service_as_parent(shop: &Shop) {
    for version in ["v1", "v2"] {
        shop.apply(&service(&format!("reviews-{version}"), &json!({"app": "reviews", "version": version})));
    }
    let to = |name: &str, weight: u32| json!({"name": name, "port": 9080, "weight": weight});
    let parent = |name: &str, namespace: &str| json!({"group": "", "kind": "Service", "name": name, "namespace": namespace, "port": 9080});
    let rewrite = json!({"type": "URLRewrite",
        "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/reviews/1"}}});
    shop.apply(&route("producer", &parent("reviews", "shop"), &json!([
        {"matches": [{"path": {"type": "PathPrefix", "value": "/reviews"}, "headers": [{"name": "end-user", "value": "jason"}]}],
            "backendRefs": [to("reviews-v2", 1)]},
        {"matches": [{"path": {"type": "Exact", "value": "/old"}}], "filters": [rewrite],
            "backendRefs": [to("reviews-v1", 1)]},
        {"matches": [{"path": {"type": "PathPrefix", "value": "/reviews"}}],
            "backendRefs": [to("reviews-v1", 3), to("reviews-v2", 1)]},
    ])));
    let versions = |pod: &str, words: &[&str]| shop.versions(&shop.ask_as(pod, 20, words));
    let programmed =
        r#"--for=jsonpath={.status.parents[0].conditions[?(@.type=="minik8s.io/Programmed")].status}=True"#;
    shop.kubectl(&["wait", "httproute/producer", programmed, "--timeout=120s"]);
    assert_eq!(versions("client", &["end-user=jason"]), "v2=20", "every proxy routes by it");
    for pod in ["client", "outside"] {
        shop.until("the route holds", || versions(pod, &["end-user=jason"]) == "v2=20");
        assert_eq!(versions(pod, &[]), "v1=15 v2=5", "{pod}");
        assert_eq!(versions(pod, &["path=/old"]), "v1=20", "{pod}");
        assert_eq!(versions(pod, &["path=/other"]), "failed=20", "what nothing matches is not found: {pod}");
    }
    let status = shop.get("httproute", "producer")["status"].clone();
    let conditions = status["parents"][0]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|one| one["status"] == "True"), "{status}");
    let why =
        shop.kubectl(&["mesh", "why", "client", "http://reviews:9080/reviews/1", "-H", "end-user:jason"]);
    assert!(why.contains("HTTPRoute shop/producer matches") && why.contains("reviews-v2"), "{why}");
    // Of another namespace's Service, for the clients of this one.
    shop.kubectl(&["create", "namespace", "far"]);
    let mut far = service("far", &json!({"app": "nobody"}));
    far["metadata"]["namespace"] = json!("far");
    shop.apply_anywhere(&far);
    shop.apply(&route("consumer", &parent("far", "far"), &json!([{"backendRefs": [to("reviews-v2", 1)]}])));
    shop.until("the consumer's route holds", || versions("client", &["host=far.far"]) == "v2=20");
    let outside = shop.ask_as("outside", 1, &["host=far.far"]);
    assert_eq!(shop.versions(&outside), "failed=1", "not for clients whose namespace is not known");
    shop.kubectl(&["delete", "httproute", "producer", "consumer"]);
    // Four pods take turns.
    shop.until("the Service is as before", || shop.versions(&shop.ask(12, &[])) == "v1=6 v2=6");
}
