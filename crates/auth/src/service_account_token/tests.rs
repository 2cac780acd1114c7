use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn issuer() -> TokenIssuer {
    TokenIssuer::new("https://issuer", &[], Arc::new(SigningKeys::generate().unwrap()))
}

fn spec() -> TokenSpec {
    TokenSpec {
        namespace: "ns".to_owned(),
        service_account: ObjectRef::new("builder", "uid-1"),
        ..TokenSpec::default()
    }
}

/// Signs arbitrary claims with the issuer's own key.
fn sign(issuer: &TokenIssuer, claims: &Value) -> String {
    let keys = issuer.keys();
    jws::sign(claims, &keys.current().id, keys.signing()).unwrap()
}

fn payload(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn round_trip_with_everything_bound() {
    let issuer = issuer();
    let spec = TokenSpec {
        pod: Some(ObjectRef::new("web-0", "uid-2")),
        node: Some(ObjectRef::new("n1", "uid-3")),
        warn_after: Some(SignedDuration::from_mins(50)),
        ..spec()
    };
    let token = issuer.issue(&spec, HOUR, now()).unwrap();
    let claims = payload(&token);
    assert_eq!(claims["iss"], "https://issuer");
    assert_eq!(claims["sub"], "system:serviceaccount:ns:builder");
    assert_eq!(claims["aud"], json!(["https://issuer"]));
    assert_eq!(claims["exp"], 1_800_003_600);
    assert_eq!(
        claims["kubernetes.io"],
        json!({
            "namespace": "ns",
            "serviceaccount": {"name": "builder", "uid": "uid-1"},
            "pod": {"name": "web-0", "uid": "uid-2"},
            "node": {"name": "n1", "uid": "uid-3"},
            "warnafter": 1_800_003_000,
        })
    );

    let verified = issuer.verify(&token, now()).unwrap();
    assert_eq!(verified.pod, spec.pod);
    assert_eq!(verified.warn_after.unwrap().as_second(), 1_800_003_000);
    let user = verified.user();
    assert_eq!(user.name, "system:serviceaccount:ns:builder");
    assert_eq!(user.uid, "uid-1");
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    let extra = |key: &str| user.extra[&format!("authentication.kubernetes.io/{key}")][0].clone();
    assert_eq!(extra("pod-name"), "web-0");
    assert_eq!(extra("pod-uid"), "uid-2");
    assert_eq!(extra("node-name"), "n1");
    assert_eq!(extra("node-uid"), "uid-3");
    assert_eq!(extra("credential-id"), format!("JTI={}", verified.id));
}

#[test]
fn dates_are_checked_even_for_known_tokens() {
    let issuer = issuer();
    let token = issuer.issue(&spec(), HOUR, now()).unwrap();
    let check = |seconds: i64, expected: Result<(), &str>| {
        let at = now() + SignedDuration::from_secs(seconds);
        let result = issuer.verify(&token, at).map(drop).map_err(|e| e.to_string());
        match expected {
            Ok(()) => assert_eq!(result, Ok(()), "{seconds}"),
            Err(text) => assert!(result.unwrap_err().contains(text), "{seconds}"),
        }
    };
    check(0, Ok(()));
    check(3599, Ok(()));
    check(3600, Err("expired"));
    check(-60, Ok(()));
    check(-61, Err("not valid before"));
}

#[test]
fn audiences() {
    let issuer = TokenIssuer::new("https://i", &["api", "https://i"], issuer().keys());
    let check = |token: &[&str], asked: &[&str], ok: bool| {
        let owned = |list: &[&str]| list.iter().map(|&a| a.to_owned()).collect::<Vec<_>>();
        let token = issuer.issue(&TokenSpec { audiences: owned(token), ..spec() }, HOUR, now()).unwrap();
        assert_eq!(issuer.verify_for(&token, &owned(asked), now()).is_ok(), ok, "{asked:?}");
    };
    check(&[], &["api"], true);
    check(&[], &["vault"], false);
    check(&["vault"], &["vault", "api"], true);
    check(&["vault"], &["api"], false);
    check(&["vault"], &[], false);
}

#[test]
fn tokens_of_former_issuers_are_accepted() {
    let keys = issuer().keys();
    let old = TokenIssuer::new("https://old", &[], keys.clone());
    let token = old.issue(&spec(), HOUR, now()).unwrap();
    let audiences = &["https://new", "https://old"];
    let new = TokenIssuer::new("https://new", audiences, keys.clone());
    assert_eq!(new.verify(&token, now()), Err(TokenError::ForeignIssuer("https://old".to_owned())));
    let new = TokenIssuer::new("https://new", audiences, keys).accepting(&["https://old".to_owned()]);
    assert!(new.verify(&token, now()).is_ok());
    assert_eq!(payload(&new.issue(&spec(), HOUR, now()).unwrap())["iss"], "https://new");
}

#[test]
fn tokens_of_secrets() {
    let issuer = issuer();
    let token = issuer.issue_for_secret("ns", &ObjectRef::new("builder", "uid-1"), "builder-token").unwrap();
    assert_eq!(payload(&token)["kubernetes.io/serviceaccount/secret.name"], "builder-token");
    let verified = issuer.verify(&token, now()).unwrap();
    assert!(verified.legacy && verified.expires.is_none());
    assert_eq!(verified.secret, Some(ObjectRef::new("builder-token", "")));
    assert_eq!(verified.user().name, "system:serviceaccount:ns:builder");
    assert!(issuer.verify_for(&token, &["vault".to_owned()], now()).is_err());
}

#[test]
fn old_keys_verify_and_strange_ones_do_not() {
    let issuer = issuer();
    let old_token = issuer.issue(&spec(), HOUR, now()).unwrap();
    let old_keys = issuer.keys();
    let mut next = SigningKeys::generate().unwrap();
    next.add_old_public_keys(&old_keys.public_keys_pem()).unwrap();
    next.add_old_public_keys(&old_keys.public_keys_pem()).unwrap();
    issuer.set_keys(Arc::new(next));
    assert!(issuer.verify(&old_token, now()).is_ok());
    assert_eq!(issuer.jwks()["keys"].as_array().unwrap().len(), 2);

    issuer.set_keys(Arc::new(SigningKeys::generate().unwrap()));
    assert_eq!(issuer.verify(&old_token, now()), Err(TokenError::Signature));
}

#[test]
fn keys_survive_their_files() {
    let keys = SigningKeys::generate().unwrap();
    let again = SigningKeys::from_private_key_pem(&keys.private_key_pem()).unwrap();
    assert_eq!(keys.current().id, again.current().id);
    assert!(SigningKeys::from_private_key_pem("nonsense").is_err());
    let mut keys = keys;
    assert!(keys.add_old_public_keys("").is_ok());
    assert!(
        keys.add_old_public_keys("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").is_err()
    );
}

#[test]
fn discovery_documents() {
    let issuer = issuer();
    let configuration = issuer.openid_configuration("https://10.0.0.1:6443/");
    assert_eq!(configuration["issuer"], "https://issuer");
    assert_eq!(configuration["jwks_uri"], "https://10.0.0.1:6443/openid/v1/jwks");
    let jwks = issuer.jwks();
    let key = &jwks["keys"][0];
    assert_eq!((&key["kty"], &key["crv"], &key["alg"]), (&json!("EC"), &json!("P-256"), &json!("ES256")));

    // Anyone can verify a token with what we publish.
    let half = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let point = [vec![4], half("x"), half("y")].concat();
    let token = issuer.issue(&spec(), HOUR, now()).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    let verifier = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point);
    verifier.verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &signature).unwrap();
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[0]).unwrap()).unwrap();
    assert_eq!(header, json!({"alg": "ES256", "kid": key["kid"]}));
}

#[test]
fn hostile_tokens() {
    let issuer = issuer();
    let good = issuer.issue(&spec(), HOUR, now()).unwrap();
    let claims = payload(&good);
    let check = |token: &str, expected: &str| {
        let error = issuer.verify(token, now()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    };
    let changed = |path: &str, value: Value| {
        let mut claims = claims.clone();
        *claims.pointer_mut(path).unwrap() = value;
        sign(&issuer, &claims)
    };
    check("", "not a JSON web token");
    check("a.b.c", "not a JSON web token");
    check(&"a".repeat(100_000), "not a JSON web token");
    let parts: Vec<_> = good.split('.').collect();
    let header = |json: &str| URL_SAFE_NO_PAD.encode(json);
    check(&format!("{}.{}.", header(r#"{"alg":"none"}"#), parts[1]), "signature");
    check(&format!("{}.{}.{}.{}", parts[0], parts[1], parts[1], parts[2]), "not a JSON web token");
    check(&format!("{}.{}.{}=", parts[0], parts[1], parts[2]), "not a JSON web token");
    // What is signed and must be understood, but is not.
    let critical = header(r#"{"alg":"ES256","crit":["b64"],"b64":false}"#);
    check(&format!("{critical}.{}.{}", parts[1], parts[2]), "signature");
    check(&format!("{}.{}.{}", header(r#"{"alg":"HS256"}"#), parts[1], parts[2]), "signature");
    let other = URL_SAFE_NO_PAD.encode(claims.to_string().replace("builder", "root"));
    check(&format!("{}.{other}.{}", parts[0], parts[2]), "signature");
    check(&format!("{}.{}", parts[0], parts[1]), "not a JSON web token");
    check(&format!("{}.{}.", parts[0], parts[1]), "signature");

    check(&changed("/iss", json!("https://evil")), "https://evil");
    check(&changed("/iss", json!(LEGACY_ISSUER)), "do not fit the issuer");
    check(&changed("/sub", json!("system:serviceaccount:ns:root")), "differ");
    check(&changed("/kubernetes.io/namespace", json!("other")), "differ");
    check(&changed("/exp", json!(null)), "has no end");
    check(&changed("/exp", json!(i64::MIN)), "expired");
    check(&changed("/nbf", json!(i64::MAX)), "not valid before");
    check(&changed("/exp", json!("soon")), "cannot be read");
    assert!(issuer.verify(&changed("/aud", json!("https://issuer")), now()).is_ok());
}

proptest! {
    #[test]
    fn noise_never_panics(token in ".{0,120}", place in 0usize..600, byte in 0x20u8..0x7f) {
        let issuer = issuer();
        let _ = issuer.verify(&token, now());
        let mut good = issuer.issue(&spec(), HOUR, now()).unwrap().into_bytes();
        let place = place % good.len();
        if good[place] != byte {
            good[place] = byte;
            let changed = String::from_utf8(good).unwrap();
            prop_assert!(issuer.verify(&changed, now()).is_err());
        }
    }
}
