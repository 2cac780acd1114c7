//! Authorizers of a configuration: what a webhook's word means to requests, reviews and policies.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_api::{
    AccessAnswer, AccessWebhook, AnswerSource, AuthorizationChain, AuthorizerStep, AuthorizerType, Extension,
    Opinion,
};
use serde_json::{Value, json};

use crate::cluster::*;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Denies Secrets, allows ConfigMaps, fails for Services, and knows nothing else.
struct Policy;

#[async_trait]
impl AccessWebhook for Policy {
    async fn review(&self, spec: &Value) -> AccessAnswer {
        let (opinion, error) = match spec["resourceAttributes"]["resource"].as_str() {
            Some("secrets") => (Opinion::Deny, None),
            Some("configmaps") => (Opinion::Allow, None),
            Some("services") => (Opinion::None, Some("authorization webhook policy: it is away".to_owned())),
            _ => (Opinion::None, None),
        };
        AccessAnswer { opinion, reason: "by policy".to_owned(), error, source: AnswerSource::Cache }
    }
}

struct Steps(Arc<[AuthorizerStep]>);

impl AuthorizationChain for Steps {
    fn steps(&self) -> Arc<[AuthorizerStep]> {
        self.0.clone()
    }
}

async fn cluster() -> Cluster {
    let step = |name: &str, by| AuthorizerStep { name: name.to_owned(), by };
    let steps = [
        step("policy", AuthorizerType::Webhook(Arc::new(Policy))),
        step("node", AuthorizerType::Node),
        step("rbac", AuthorizerType::Rbac),
    ];
    let authorization: Option<Arc<dyn AuthorizationChain>> = Some(Arc::new(Steps(Arc::new(steps))));
    Cluster::with(Setup {
        extension: Extension { authorization, ..Extension::default() },
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn webhooks_word_comes_before_rbac() {
    let cluster = cluster().await;
    let ann = cluster.user("ann", &[]);
    ann.get(CONFIG_MAPS).await.ok();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "ann"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole",
        "name": "cluster-admin"}, "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let services = "/api/v1/namespaces/default/services";
    // It could not be asked, and nobody else allows it: told as what it is.
    let failed = ann.get(services).await.refused(500, "InternalError");
    assert!(
        failed["message"].as_str().unwrap().contains("authorization webhook policy: it is away"),
        "{failed}"
    );
    cluster.admin().post(bindings, binding).await.ok();
    let mut tries = 0;
    while ann.get("/api/v1/nodes").await.code == 403 {
        tries += 1;
        assert!(tries < 3000, "the binding does not count");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // RBAC allows what the webhook has no word on, and nothing that it denies.
    ann.get(services).await.ok();
    let refused = ann.get("/api/v1/namespaces/default/secrets").await.refused(403, "Forbidden");
    assert!(refused["message"].as_str().unwrap().ends_with(": by policy"), "{refused}");
    cluster.admin().get("/api/v1/namespaces/default/secrets").await.ok();
    // Reviews tell the same.
    let can = async |resource: &str| {
        let attributes = json!({"verb": "list", "resource": resource, "namespace": "default"});
        ann.post(REVIEWS, json!({"spec": {"resourceAttributes": attributes}})).await.ok()["status"].clone()
    };
    let denied = can("secrets").await;
    assert_eq!((&denied["allowed"], &denied["denied"]), (&json!(false), &json!(true)));
    let allowed = can("services").await;
    assert_eq!(allowed["allowed"], true);
    assert!(allowed["evaluationError"].as_str().unwrap().contains("it is away"), "{allowed}");
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = ann.post(rules, json!({"spec": {"namespace": "default"}})).await.ok();
    assert_eq!(rules["status"]["incomplete"], true);
    let metrics = cluster.admin().get("/metrics").await.text_whole();
    let counted =
        "apiserver_authorization_decisions_total{type=\"Webhook\",name=\"policy\",decision=\"denied\"}";
    assert!(metrics.contains(counted), "{metrics}");
}

/// A node is judged again by the store where the index lags; not where somebody denied before.
#[tokio::test]
async fn webhooks_denial_holds_for_nodes_too() {
    let cluster = cluster().await;
    let admin = cluster.admin();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "s", "secret": {"secretName": "s"}}]}});
    admin.post("/api/v1/namespaces/default/pods", pod).await.ok();
    admin.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.ok();
    let node = cluster.user("system:node:n", &["system:nodes"]);
    node.get("/api/v1/namespaces/default/pods/p").await.ok();
    node.get("/api/v1/namespaces/default/secrets/s").await.refused(403, "Forbidden");
}
