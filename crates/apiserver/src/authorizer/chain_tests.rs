//! Who is asked in which order, and who decides.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_api::{AccessAnswer, AnswerSource, AuthorizationChain};
use minik8s_auth::rbac::RbacKind;
use parking_lot::Mutex;

use super::super::AuthorizationMetrics;
use super::*;

/// A webhook that always says the same.
struct Fixed {
    opinion: Opinion,
    error: Option<&'static str>,
    asked: Arc<Mutex<Vec<Value>>>,
}

#[async_trait]
impl AccessWebhook for Fixed {
    async fn review(&self, spec: &Value) -> AccessAnswer {
        self.asked.lock().push(spec.clone());
        AccessAnswer {
            opinion: self.opinion,
            reason: "because".to_owned(),
            error: self.error.map(str::to_owned),
            source: AnswerSource::Cache,
        }
    }
}

struct Steps(Arc<[AuthorizerStep]>);

impl AuthorizationChain for Steps {
    fn steps(&self) -> Arc<[AuthorizerStep]> {
        self.0.clone()
    }
}

/// Words of a chain: `node`, `rbac`, or what a webhook says. Ann may list pods by RBAC.
fn authorizer(chain: &str) -> (Authorizer, Arc<Mutex<Vec<Value>>>) {
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let webhook = |opinion, error| {
        AuthorizerType::Webhook(
            Arc::new(Fixed { opinion, error, asked: asked.clone() }) as Arc<dyn AccessWebhook>
        )
    };
    let steps = chain.split_whitespace().map(|word| AuthorizerStep {
        name: word.to_owned(),
        by: match word {
            "node" => AuthorizerType::Node,
            "rbac" => AuthorizerType::Rbac,
            "allow" => webhook(Opinion::Allow, None),
            "deny" => webhook(Opinion::Deny, None),
            "broken" => webhook(Opinion::None, Some("it is away")),
            _ => webhook(Opinion::None, None),
        },
    });
    let chain: Arc<dyn AuthorizationChain> = Arc::new(Steps(steps.collect()));
    let authorizer = Authorizer::new(Some(chain), AuthorizationMetrics::default());
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]});
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r",
        "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "User", "name": "ann",
        "apiGroup": "rbac.authorization.k8s.io"}]});
    let mut policy = authorizer.policy.write();
    policy.upsert(RbacKind::ClusterRole, &role).unwrap();
    policy.upsert(RbacKind::ClusterRoleBinding, &binding).unwrap();
    drop(policy);
    (authorizer, asked)
}

async fn check(chain: &str, verb: &str, expected: &str, questions: usize) {
    let (authorizer, asked) = authorizer(chain);
    let wanted = Attributes::resource(verb, "", "pods").in_namespace("a");
    let judged = authorizer.judge(&User::authenticated("ann", &[]), &wanted).await;
    let found = match judged.decision {
        Decision::Allow { .. } => "allow",
        Decision::Deny { .. } => "deny",
        Decision::NoOpinion { .. } => "none",
    };
    assert_eq!((found, asked.lock().len()), (expected, questions), "{chain} {verb}");
    assert_eq!(judged.error.is_some(), chain.contains("broken") && questions > 0, "{chain}");
}

#[tokio::test]
async fn the_first_authorizer_that_decides_counts() {
    check("node rbac", "list", "allow", 0).await;
    check("node rbac", "get", "none", 0).await;
    check("node", "list", "none", 0).await;
    check("deny rbac", "list", "deny", 1).await;
    check("rbac deny", "list", "allow", 0).await;
    check("rbac allow", "get", "allow", 1).await;
    check("pass pass rbac", "list", "allow", 2).await;
    check("pass rbac pass", "get", "none", 2).await;
    check("broken rbac", "list", "allow", 1).await;
    check("broken rbac", "get", "none", 1).await;
    check("allow deny", "get", "allow", 1).await;
    check("deny allow", "get", "deny", 1).await;
}

#[tokio::test]
async fn masters_are_asked_about_nowhere() {
    let (authorizer, asked) = authorizer("deny");
    let wanted = Attributes::path("get", "/metrics");
    assert!(
        authorizer.authorize(&User::authenticated("root", &["system:masters"]), &wanted).await.is_allowed()
    );
    assert!(!authorizer.authorize(&User::authenticated("eve", &[]), &wanted).await.is_allowed());
    assert_eq!(asked.lock().len(), 1);
}

#[tokio::test]
async fn questions_hold_all_that_a_request_is_about() {
    let (authorizer, asked) = authorizer("pass");
    let user = User { uid: "u".to_owned(), ..User::authenticated("ann", &["devs"]) };
    let fields = [("spec.nodeName", "n1")];
    let wanted = Attributes::resource("list", "apps", "deployments")
        .in_namespace("a")
        .version("v1")
        .selecting(&fields);
    authorizer.authorize(&user, &wanted).await;
    authorizer.authorize(&user, &Attributes::path("get", "/healthz")).await;
    let asked = asked.lock();
    let expected = json!({"user": "ann", "uid": "u", "groups": ["devs", "system:authenticated"], "extra": {},
        "resourceAttributes": {"namespace": "a", "verb": "list", "group": "apps", "version": "v1",
            "resource": "deployments", "subresource": "", "name": "",
            "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}}});
    assert_eq!(asked[0], expected);
    assert_eq!(asked[1]["nonResourceAttributes"], json!({"path": "/healthz", "verb": "get"}));
}

/// Expressions ask without waiting.
#[tokio::test(flavor = "multi_thread")]
async fn expressions_get_the_webhooks_word() {
    let (authorizer, _) = authorizer("deny rbac");
    let wanted = Attributes::resource("list", "", "pods");
    let judged = authorizer.judge_now(&User::authenticated("ann", &[]), &wanted);
    assert!(matches!(judged.decision, Decision::Deny { .. }));
}
