//! Service account tokens: issued, reviewed, and dead with what they are bound to.

use std::sync::Arc;

use minik8s_api::{Extension, ServiceAccountTokens, TokenAuthenticator, TokenUser};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::cluster::*;

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

async fn review(client: &Client, token: &Value, audiences: Value) -> Value {
    let body = json!({"spec": {"token": token, "audiences": audiences}});
    client.post("/apis/authentication.k8s.io/v1/tokenreviews", body).await.ok()["status"].clone()
}

#[tokio::test]
async fn a_token_says_who_it_is() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let issued = admin.post(TOKEN, json!({})).await;
    assert_eq!(issued.code, 201);
    let issued = issued.ok();
    assert_eq!(issued["spec"]["expirationSeconds"], 3600);
    let status = review(&admin, &issued["status"]["token"], json!([])).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:default");
    assert!(status["user"]["groups"].to_string().contains("system:serviceaccounts:default"));
    let garbage = review(&admin, &json!("garbage"), json!([])).await;
    assert!(garbage["authenticated"] != true && garbage["error"].is_string(), "{garbage}");
    // Another audience.
    let vault =
        admin.post(TOKEN, json!({"spec": {"audiences": ["vault"], "expirationSeconds": 600}})).await.ok();
    let token = &vault["status"]["token"];
    assert_ne!(review(&admin, token, json!([])).await["authenticated"], true, "not for the API server");
    let good = review(&admin, token, json!(["other", "vault"])).await;
    assert_eq!((&good["authenticated"], &good["audiences"]), (&json!(true), &json!(["vault"])));
    for (body, code) in [
        (json!({"spec": {"expirationSeconds": 10}}), 422),
        (json!({"spec": {"expirationSeconds": 1u64 << 40}}), 422),
        (json!({"spec": {"expirationSeconds": "x"}}), 400),
        (json!({"spec": {"expirationSeconds": 1.5}}), 400),
        (json!({"spec": {"audiences": "x"}}), 400),
        (json!({"spec": []}), 400),
        (json!({"spec": "x"}), 400),
        (json!({"spec": {"boundObjectRef": {"kind": "Deployment", "name": "d"}}}), 400),
        (json!({"spec": {"boundObjectRef": {"kind": "Pod", "name": "none"}}}), 404),
        (json!({"kind": "Binding"}), 400),
    ] {
        let refused = admin.post(TOKEN, body.clone()).await;
        refused.assert_status();
        assert_eq!(refused.code, code, "{body}: {}", refused.text());
    }
    admin
        .post("/api/v1/namespaces/default/serviceaccounts/none/token", json!({}))
        .await
        .refused(404, "NotFound");
}

#[tokio::test]
async fn a_token_dies_with_what_it_is_bound_to() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let pod_made = admin.post(PODS, pod("p")).await.ok();
    let secrets = "/api/v1/namespaces/default/secrets";
    admin.post(secrets, json!({"metadata": {"name": "s"}})).await.ok();
    let bound = |kind: &str, name: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}}});
    let of_pod = admin.post(TOKEN, bound("Pod", "p")).await.ok()["status"]["token"].clone();
    let of_secret = admin.post(TOKEN, bound("Secret", "s")).await.ok()["status"]["token"].clone();
    let info = review(&admin, &of_pod, json!([])).await;
    assert_eq!(info["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    let wrong_uid = json!({"spec": {"boundObjectRef": {"kind": "Pod", "name": "p", "uid": "other"}}});
    admin.post(TOKEN, wrong_uid).await.refused(409, "Conflict");
    assert!(pod_made["metadata"]["uid"].is_string());
    admin.delete_with(&format!("{PODS}/p"), json!({"gracePeriodSeconds": 0})).await.ok();
    assert_ne!(review(&admin, &of_pod, json!([])).await["authenticated"], true);
    admin.post(PODS, pod("p")).await.ok();
    assert_ne!(review(&admin, &of_pod, json!([])).await["authenticated"], true, "another pod of that name");
    assert_eq!(review(&admin, &of_secret, json!([])).await["authenticated"], true);
    admin.delete(&format!("{secrets}/s")).await.ok();
    assert_ne!(review(&admin, &of_secret, json!([])).await["authenticated"], true);
    let plain = admin.post(TOKEN, json!({})).await.ok()["status"]["token"].clone();
    admin.delete("/api/v1/namespaces/default/serviceaccounts/default").await.ok();
    assert_ne!(review(&admin, &plain, json!([])).await["authenticated"], true);
    let keys = admin.get("/openid/v1/jwks").await.ok();
    assert!(keys["keys"].as_array().is_some_and(|keys| !keys.is_empty()));
    let issuer = admin.get("/.well-known/openid-configuration").await.ok();
    assert_eq!(issuer["issuer"], "https://kubernetes.default.svc.cluster.local");
}

#[tokio::test]
async fn token_from_a_secret_dies_when_its_deletion_begins() {
    use base64::Engine;
    use minik8s_auth::service_account_token::ObjectRef;

    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (secrets, held) = ("/api/v1/namespaces/default/secrets", json!(["example.com/held"]));
    let account =
        admin.post(accounts, json!({"metadata": {"name": "sa", "finalizers": held}})).await.ok()["metadata"]
            .clone();
    let reference = ObjectRef::new("sa", account["uid"].as_str().unwrap());
    let mut tokens = Vec::new();
    for name in ["one", "two"] {
        let token = cluster.server.token_issuer().issue_for_secret("default", &reference, name).unwrap();
        let data = json!({"token": base64::engine::general_purpose::STANDARD.encode(&token)});
        let secret = json!({
            "metadata": {"name": name, "finalizers": held, "annotations": {"kubernetes.io/service-account.name": "sa"}},
            "type": "kubernetes.io/service-account-token", "data": data,
        });
        admin.post(secrets, secret).await.ok();
        tokens.push(json!(token));
    }
    for token in &tokens {
        assert_eq!(review(&admin, token, json!([])).await["authenticated"], true);
    }
    admin.delete(&format!("{secrets}/one")).await.ok();
    assert!(admin.get(&format!("{secrets}/one")).await.ok()["metadata"]["deletionTimestamp"].is_string());
    assert_ne!(review(&admin, &tokens[0], json!([])).await["authenticated"], true);
    assert_eq!(review(&admin, &tokens[1], json!([])).await["authenticated"], true);
    let bound = admin.post(&format!("{accounts}/sa/token"), json!({})).await.ok()["status"]["token"].clone();
    admin.delete(&format!("{accounts}/sa")).await.ok();
    assert_ne!(
        review(&admin, &tokens[1], json!([])).await["authenticated"],
        true,
        "the account is being deleted"
    );
    assert_eq!(review(&admin, &bound, json!([])).await["authenticated"], true, "for a minute, as upstream");
}

/// Knows one token, and remembers what it was shown.
#[derive(Default)]
struct Foreign {
    shown: Mutex<Vec<String>>,
    audiences: Vec<String>,
}

#[async_trait::async_trait]
impl TokenAuthenticator for Foreign {
    async fn authenticate(&self, token: &str, _: &[String]) -> Option<Result<TokenUser, String>> {
        self.shown.lock().push(token.to_owned());
        match token {
            "theirs" => {
                let audiences = self.audiences.clone();
                Some(Ok(TokenUser { name: "ann".to_owned(), audiences, ..TokenUser::default() }))
            }
            "revoked" => Some(Err("it was revoked".to_owned())),
            _ => None,
        }
    }
}

#[tokio::test]
async fn tokens_of_others_are_asked_about_and_own_ones_never_shown() {
    let of_api = Arc::new(Foreign::default());
    let of_vault = Arc::new(Foreign { audiences: vec!["vault".to_owned()], ..Foreign::default() });
    let extension = Extension { tokens: vec![of_api.clone()], ..Extension::default() };
    let cluster = Cluster::with(Setup { extension, ..Setup::default() }).await;
    let admin = cluster.admin();
    let status = review(&admin, &json!("theirs"), json!([])).await;
    assert_eq!(status["user"]["username"], "ann", "{status}");
    assert_eq!(status["user"]["groups"], json!(["system:authenticated"]));
    let refused = review(&admin, &json!("revoked"), json!([])).await;
    assert_eq!((&refused["authenticated"], &refused["error"]), (&Value::Null, &json!("it was revoked")));
    assert!(review(&admin, &json!("theirs"), json!(["vault"])).await["authenticated"] != true);
    // Ours, good for somebody else or bound to what is gone: that is nobody else's business.
    let own = admin.post(TOKEN, json!({"spec": {"audiences": ["vault"]}})).await.ok();
    let own = &own["status"]["token"];
    assert!(review(&admin, own, json!([])).await["authenticated"] != true);
    assert_eq!(review(&admin, own, json!(["vault"])).await["authenticated"], true);
    assert!(!of_api.shown.lock().iter().any(|token| token == own.as_str().unwrap()));

    let extension = Extension { tokens: vec![of_vault], ..Extension::default() };
    let cluster = Cluster::with(Setup { extension, ..Setup::default() }).await;
    let admin = cluster.admin();
    assert!(review(&admin, &json!("theirs"), json!([])).await["authenticated"] != true);
    let good = review(&admin, &json!("theirs"), json!(["vault", "other"])).await;
    assert_eq!((&good["authenticated"], &good["audiences"]), (&json!(true), &json!(["vault"])));
}

#[tokio::test]
async fn token_options_bound_lifetime_and_name_audiences() {
    let options = ServiceAccountTokens {
        issuers: vec!["https://new".to_owned(), "https://old".to_owned()],
        api_audiences: vec!["api".to_owned()],
        max_expiration_seconds: Some(7200),
        is_not_extended: true,
    };
    let extension = Extension { service_account_tokens: Some(options), ..Extension::default() };
    let cluster = Cluster::with(Setup { extension, ..Setup::default() }).await;
    let admin = cluster.admin();
    let issued = admin.post(TOKEN, json!({"spec": {"expirationSeconds": 86400}})).await.ok();
    assert_eq!(issued["spec"]["expirationSeconds"], 7200);
    assert_eq!(issued["spec"]["audiences"], json!(["api"]));
    let status = review(&admin, &issued["status"]["token"], json!([])).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["api"])));
    let configuration = admin.get("/.well-known/openid-configuration").await.ok();
    assert_eq!(configuration["issuer"], "https://new");
}
