//! Tokens of issuers on loopback: who gets in, and who does not whatever they try.

#![allow(clippy::unwrap_used)]

mod provider;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use minik8s_api::{TokenAuthenticator, TokenUser};
use minik8s_authentication::webhook::TokenWebhook;
use minik8s_authentication::{AuthenticationSettings, Issuers};
use serde_json::{Value, json};

use crate::provider::{Provider, SigningKey};

const OWN: &str = "https://kubernetes.default.svc.cluster.local";

/// The part of a file about one issuer.
fn jwt(provider: &Provider, audience: &str, prefix: &str) -> String {
    let authority = provider.authority.replace('\n', "\n      ");
    format!(
        "- issuer:\n    url: {}\n    audiences: [{audience}]\n    certificateAuthority: |\n      {authority}\n  \
         claimMappings:\n    username: {{claim: sub, prefix: '{prefix}'}}\n    groups: {{claim: groups, prefix: '{prefix}'}}\n",
        provider.url
    )
}

fn issuers(parts: &[String]) -> Arc<Issuers> {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n";
    let settings = AuthenticationSettings::parse(&format!("{head}{}", parts.concat()), OWN);
    Issuers::new(settings.unwrap_or_else(|error| panic!("{error}")))
}

fn claims(issuer: &str, audience: &str) -> Value {
    let now = Timestamp::now().as_second();
    json!({"iss": issuer, "aud": audience, "sub": "ann", "exp": now + 600, "groups": ["dev"]})
}

async fn user(issuers: &Issuers, token: &str) -> Option<Result<TokenUser, String>> {
    issuers.authenticate(token, &[]).await
}

#[track_caller]
fn refused(found: Option<Result<TokenUser, String>>, expected: &str) {
    let told = found.expect("its issuer is known").expect_err("it must be refused");
    assert!(told.contains(expected), "{told}");
}

#[tokio::test]
async fn token_of_a_trusted_issuer_is_its_user() {
    let key = SigningKey::new("k1");
    let provider = Provider::start(&[&key]).await;
    let issuers = issuers(&[jwt(&provider, "k8s", "corp:")]);
    for _ in 0..5 {
        let found = user(&issuers, &key.sign(&claims(&provider.url, "k8s"))).await.unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.groups), ("corp:ann", vec!["corp:dev".to_owned()]));
    }
    assert_eq!(provider.asked("/keys"), 1, "keys are kept");
    // No token of these issuers: others may know it.
    for foreign in
        ["", "abc", "a.b.c", "abcdef.0123456789abcdef", &key.sign(&claims("https://elsewhere", "k8s"))]
    {
        assert!(user(&issuers, foreign).await.is_none(), "{foreign}");
    }
}

#[tokio::test]
async fn forged_tokens_are_nobodys() {
    let (key, other) = (SigningKey::new("k1"), SigningKey::new("k1"));
    let provider = Provider::start(&[&key]).await;
    let issuers = issuers(&[jwt(&provider, "k8s", "")]);
    let good = claims(&provider.url, "k8s");
    refused(user(&issuers, &other.sign(&good)).await, "no key of its issuer has signed it");
    assert!(user(&issuers, &key.sign(&good)).await.unwrap().is_ok());
    refused(user(&issuers, &other.sign(&good)).await, "its signature is wrong");
    for algorithm in ["none", "None", "HS256", "RS256", "ES384"] {
        let token = key.sign_as(&json!({"alg": algorithm, "kid": "k1"}), &good);
        assert!(user(&issuers, &token).await.unwrap().is_err(), "{algorithm}");
    }
    // A key that comes along with the token is not looked at.
    let own = json!({"alg": "ES256", "kid": "k1", "jwk": other.jwk(), "jku": "https://evil", "x5u": "https://evil"});
    refused(user(&issuers, &other.sign_as(&own, &good)).await, "its signature is wrong");
    let token = key.sign(&good);
    let (signed, _) = token.rsplit_once('.').unwrap();
    refused(user(&issuers, &format!("{signed}.")).await, "its signature is wrong");
    let mut late = good.clone();
    late["exp"] = json!(Timestamp::now().as_second() - 1);
    refused(user(&issuers, &key.sign(&late)).await, "expired");
    refused(user(&issuers, &key.sign(&claims(&provider.url, "another-app"))).await, "meant for");
    let mut reserved = good.clone();
    reserved["sub"] = json!("system:kube-scheduler");
    refused(user(&issuers, &key.sign(&reserved)).await, "reserved");
}

#[tokio::test]
async fn keys_of_one_issuer_count_for_no_other() {
    let (ours, theirs) = (SigningKey::new("same"), SigningKey::new("same"));
    let (a, b) = (Provider::start(&[&ours]).await, Provider::start(&[&theirs]).await);
    let issuers = issuers(&[jwt(&a, "k8s", "a:"), jwt(&b, "k8s", "b:")]);
    let name = async |key: &SigningKey, url: &str| {
        user(&issuers, &key.sign(&claims(url, "k8s"))).await.unwrap().map(|user| user.name)
    };
    assert_eq!(name(&ours, &a.url).await, Ok("a:ann".to_owned()));
    assert_eq!(name(&theirs, &b.url).await, Ok("b:ann".to_owned()));
    assert!(name(&theirs, &a.url).await.is_err());
    assert!(name(&ours, &b.url).await.is_err());
}

#[tokio::test]
async fn unknown_key_is_asked_for_but_not_each_time() {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let provider = Provider::start(&[&old, &new]).await;
    let issuers = issuers(&[jwt(&provider, "k8s", "")]);
    provider.keys(&[&old, &new]);
    assert!(user(&issuers, &new.sign(&claims(&provider.url, "k8s"))).await.unwrap().is_ok());
    for invented in 0..20 {
        let key = SigningKey::new(&format!("invented-{invented}"));
        refused(user(&issuers, &key.sign(&claims(&provider.url, "k8s"))).await, "no key of its issuer");
    }
    assert_eq!(provider.asked("/keys"), 1, "the issuer is left in peace");
}

#[tokio::test]
async fn issuer_that_misbehaves_is_told() {
    let key = SigningKey::new("k1");
    let check = async |expected: &str, spoil: &dyn Fn(&Provider)| {
        let provider = Provider::start(&[&key]).await;
        spoil(&provider);
        let issuers = issuers(&[jwt(&provider, "k8s", "")]);
        let found = user(&issuers, &key.sign(&claims(&provider.url, "k8s"))).await;
        let told = found.unwrap().unwrap_err();
        assert!(told.contains(expected), "{told}");
    };
    const DISCOVERY: &str = "/.well-known/openid-configuration";
    check("which is not followed", &|p| p.answer(DISCOVERY, 302, "https://169.254.169.254/", "")).await;
    check("which is not followed", &|p| p.answer("/keys", 307, "http://127.0.0.1/", "")).await;
    check("about the issuer \"https://evil\"", &|p| {
        p.page(
            DISCOVERY,
            &json!({"issuer": "https://evil", "jwks_uri": format!("{}/keys", p.url)}).to_string(),
        );
    })
    .await;
    check("jwks_uri: it must begin with https", &|p| {
        p.page(DISCOVERY, &json!({"issuer": p.url, "jwks_uri": "http://127.0.0.1/keys"}).to_string());
    })
    .await;
    check("at most 1048576 bytes", &|p| p.page("/keys", &"x".repeat(2 << 20))).await;
    check("no key that could be used", &|p| {
        p.page("/keys", "{\"keys\": [{\"kty\": \"oct\", \"k\": \"AAAA\"}]}")
    })
    .await;
    check("it answered 500", &|p| p.answer("/keys", 500, "", "")).await;
    // Somebody else at its address.
    let mut other = Provider::start(&[&key]).await;
    other.authority = Provider::start(&[]).await.authority;
    let issuers = issuers(&[jwt(&other, "k8s", "")]);
    refused(user(&issuers, &key.sign(&claims(&other.url, "k8s"))).await, "certificate");
}

#[tokio::test]
async fn webhook_knows_tokens_and_is_asked_once() {
    let provider = Provider::start(&[]).await;
    let answer = json!({"status": {"authenticated": true, "audiences": ["https://api"],
        "user": {"username": "ann", "uid": "7", "groups": ["dev"], "extra": {"a": ["b"]}}}});
    provider.page("/review", &answer.to_string());
    let dir = tempfile::tempdir().unwrap();
    let (file, authority) = (dir.path().join("config"), dir.path().join("ca.pem"));
    std::fs::write(&authority, &provider.authority).unwrap();
    let cluster = json!({"server": format!("{}/review", provider.url), "certificate-authority": authority});
    std::fs::write(&file, json!({"clusters": [{"name": "a", "cluster": cluster}]}).to_string()).unwrap();
    let webhook = TokenWebhook::read(&file, Duration::from_secs(60)).unwrap();
    let audiences = ["https://api".to_owned()];
    for _ in 0..3 {
        let found = webhook.authenticate("secret", &audiences).await.unwrap().unwrap();
        assert_eq!(
            (found.name.as_str(), found.uid.as_str(), &found.audiences[..]),
            ("ann", "7", &audiences[..])
        );
    }
    assert_eq!(provider.asked("/review"), 1);
    let asked = &provider.bodies()[0];
    assert_eq!(asked["spec"], json!({"token": "secret", "audiences": audiences}));
    assert_eq!(asked["apiVersion"], "authentication.k8s.io/v1");
    // Refused, and away: away is not cache.
    provider
        .page("/review", &json!({"status": {"authenticated": false, "error": "no such user"}}).to_string());
    let told = webhook.authenticate("other", &audiences).await.unwrap().unwrap_err();
    assert!(told.contains("no such user"), "{told}");
    provider.answer("/review", 500, "", "");
    let told = webhook.authenticate("third", &audiences).await.unwrap().unwrap_err();
    assert!(told.contains("it answered 500"), "{told}");
    provider.page("/review", &answer.to_string());
    assert!(webhook.authenticate("third", &audiences).await.unwrap().is_ok());
}
