//! Authorization webhooks on loopback: what they are sent, how long their word counts, and what their failures mean.

#![allow(clippy::unwrap_used)]

mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use minik8s_api::{AccessAnswer, AnswerSource, AuthorizationChain, AuthorizerType, Opinion};
use minik8s_authorization::{AuthorizationSettings, Authorizers, follow};
use serde_json::{Value, json};

use crate::server::Server;

/// A directory with a kubeconfig file for the server.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new(server: &Server, user: Value) -> Files {
        let dir = tempfile::tempdir().unwrap();
        let authority = dir.path().join("ca.pem");
        std::fs::write(&authority, &server.authority).unwrap();
        let cluster =
            json!({"server": format!("{}/authorize", server.url), "certificate-authority": authority});
        let file =
            json!({"clusters": [{"name": "a", "cluster": cluster}], "users": [{"name": "a", "user": user}]});
        std::fs::write(dir.path().join("kubeconfig"), file.to_string()).unwrap();
        Files { dir }
    }

    /// A configuration with this webhook and RBAC; `more` changes the webhook.
    fn configuration(&self, more: Value) -> String {
        let mut webhook = json!({"timeout": "1s", "authorizedTTL": "1m", "unauthorizedTTL": "1m",
            "subjectAccessReviewVersion": "v1", "failurePolicy": "NoOpinion", "connectionInfo": {
                "type": "KubeConfigFile", "kubeConfigFile": self.dir.path().join("kubeconfig")}});
        for (field, value) in more.as_object().unwrap() {
            webhook[field] = value.clone();
        }
        let authorizers = json!([{"type": "Webhook", "name": "policy", "webhook": webhook},
            {"type": "RBAC", "name": "rbac"}, {"type": "Node", "name": "node"}]);
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
            "authorizers": authorizers})
        .to_string()
    }

    fn authorizers(&self, more: Value) -> Arc<Authorizers> {
        let settings = AuthorizationSettings::parse(&self.configuration(more));
        Authorizers::new(settings.unwrap_or_else(|error| panic!("{error}")))
    }
}

fn spec(user: &str) -> Value {
    json!({"user": user, "uid": "", "groups": ["devs"], "extra": {}, "resourceAttributes": {"namespace": "a",
        "verb": "get", "group": "", "version": "v1", "resource": "pods", "subresource": "", "name": "p"}})
}

async fn ask(authorizers: &Authorizers, spec: &Value) -> AccessAnswer {
    let steps = authorizers.steps();
    match &steps[0].by {
        AuthorizerType::Webhook(webhook) => webhook.review(spec).await,
        other => panic!("{} is the first", other.name()),
    }
}

fn result(answer: &AccessAnswer) -> &'static str {
    match answer.source {
        AnswerSource::Asked { result, .. } => result,
        AnswerSource::Cache => "remembered",
        AnswerSource::Excluded => "excluded",
        AnswerSource::ConditionFailed => "condition failed",
    }
}

#[tokio::test]
async fn webhook_is_asked_with_a_review_and_its_word_counts_for_a_while() {
    let server = Server::start().await;
    let files = Files::new(&server, json!({"token": "secret"}));
    let authorizers = files.authorizers(json!({}));
    for (user, status, opinion) in [
        ("yes", json!({"allowed": true, "reason": "why"}), Opinion::Allow),
        ("no", json!({"allowed": false, "denied": true, "reason": "why"}), Opinion::Deny),
        ("who", json!({"allowed": false, "reason": "why"}), Opinion::None),
    ] {
        server.answers(200, json!({"kind": "SubjectAccessReview", "status": status}));
        for expected in ["success", "remembered", "remembered"] {
            let answer = ask(&authorizers, &spec(user)).await;
            assert_eq!((answer.opinion, answer.reason.as_str(), result(&answer)), (opinion, "why", expected));
        }
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    let expected = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "yes", "groups": ["devs"], "resourceAttributes": {
            "namespace": "a", "verb": "get", "version": "v1", "resource": "pods", "name": "p"}}});
    assert_eq!(asked[0], ("Bearer secret".to_owned(), expected));
    // A cache of no length is none.
    let forgetful = files.authorizers(json!({"cacheUnauthorizedRequests": false}));
    for _ in 0..2 {
        assert_eq!(result(&ask(&forgetful, &spec("who")).await), "success");
    }
}

#[tokio::test]
async fn webhook_that_fails_never_allows() {
    let server = Server::start().await;
    let files = Files::new(&server, json!({}));
    let open = files.authorizers(json!({"failurePolicy": "NoOpinion"}));
    let closed = files.authorizers(json!({"failurePolicy": "Deny"}));
    let yes = json!({"status": {"allowed": true}});
    for (status, body, words) in [
        (500, yes.clone(), "it answered 500"),
        (302, yes.clone(), "redirects"),
        (200, json!("<html>"), "no SubjectAccessReview"),
        (200, json!({}), "no SubjectAccessReview"),
        (200, json!({"status": {"allowed": true, "denied": true}}), "both allow and deny"),
    ] {
        server.answers(status, body);
        for (authorizers, opinion) in [(&open, Opinion::None), (&closed, Opinion::Deny)] {
            let answer = ask(authorizers, &spec("ann")).await;
            let error = answer.error.clone().unwrap();
            assert!(
                answer.opinion == opinion && error.contains(words) && error.contains("webhook policy"),
                "{answer:?}"
            );
            assert_eq!(result(&answer), "error");
        }
    }
    server.hangs();
    let answer = ask(&closed, &spec("ann")).await;
    assert_eq!((answer.opinion, result(&answer)), (Opinion::Deny, "timeout"));
    // That it could not be asked is not remembered.
    server.answers(200, yes);
    assert_eq!(ask(&closed, &spec("ann")).await.opinion, Opinion::Allow);
    // Somebody else at its address.
    let other = Files::new(&Server::start().await, json!({}));
    let config = std::fs::read_to_string(files.dir.path().join("kubeconfig")).unwrap();
    let authority = |files: &Files| files.dir.path().join("ca.pem").display().to_string();
    let config = config.replace(&authority(&files), &authority(&other));
    std::fs::write(files.dir.path().join("kubeconfig"), config).unwrap();
    let answer = ask(&files.authorizers(json!({"failurePolicy": "Deny"})), &spec("bob")).await;
    assert_eq!((answer.opinion, result(&answer)), (Opinion::Deny, "error"));
}

#[tokio::test]
async fn match_conditions_say_what_is_for_a_webhook() {
    let server = Server::start().await;
    let files = Files::new(&server, json!({}));
    server.answers(200, json!({"status": {"denied": true}}));
    let conditions = json!([{"expression": "has(request.resourceAttributes)"},
        {"expression": "request.resourceAttributes.namespace == 'a'"}]);
    let more = |policy: &str, conditions: &Value| {
        json!({"failurePolicy": policy, "matchConditions": conditions,
            "matchConditionSubjectAccessReviewVersion": "v1"})
    };
    let authorizers = files.authorizers(more("Deny", &conditions));
    let mut elsewhere = spec("ann");
    elsewhere["resourceAttributes"]["namespace"] = "b".into();
    let path = json!({"user": "ann", "uid": "", "groups": [], "extra": {},
        "nonResourceAttributes": {"path": "/healthz", "verb": "get"}});
    for excluded in [&elsewhere, &path] {
        let answer = ask(&authorizers, excluded).await;
        assert_eq!((answer.opinion, result(&answer)), (Opinion::None, "excluded"));
    }
    assert_eq!(ask(&authorizers, &spec("ann")).await.opinion, Opinion::Deny);
    assert_eq!(server.asked().len(), 1);
    let broken = json!([{"expression": "request.resourceAttributes.namespace == 'a'"}]);
    for (policy, opinion) in [("NoOpinion", Opinion::None), ("Deny", Opinion::Deny)] {
        let answer = ask(&files.authorizers(more(policy, &broken)), &path).await;
        assert_eq!((answer.opinion, result(&answer)), (opinion, "condition failed"));
    }
}

#[tokio::test]
async fn changed_file_counts_and_a_wrong_one_does_not() {
    let server = Server::start().await;
    let files = Files::new(&server, json!({}));
    let path: PathBuf = files.dir.path().join("authorization.yaml");
    std::fs::write(&path, files.configuration(json!({}))).unwrap();
    let authorizers = Authorizers::new(AuthorizationSettings::read(&path).unwrap());
    let following = tokio::spawn(follow(path.clone(), authorizers.clone()));
    let first = |authorizers: &Authorizers| authorizers.steps()[0].name.clone();
    std::fs::write(&path, "authorizers: {").unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(first(&authorizers), "policy", "a file that is wrong changes nothing");
    std::fs::write(&path, files.configuration(json!({})).replace("\"policy\"", "\"other\"")).unwrap();
    tokio::time::timeout(Duration::from_secs(60), async {
        while first(&authorizers) != "other" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    following.abort();
}
