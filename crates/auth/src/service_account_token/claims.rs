//! What a token says, on the wire and for us.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{CLOCK_SKEW, LEGACY_ISSUER, TokenError};
use crate::user::{AUTHENTICATED, CREDENTIAL_ID, User, service_account_groups, service_account_user_name};

/// An object that a token is about or bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl ObjectRef {
    pub fn new(name: &str, uid: &str) -> Self {
        ObjectRef { name: name.to_owned(), uid: uid.to_owned() }
    }
}

/// What to issue a token for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenSpec {
    pub namespace: String,
    pub service_account: ObjectRef,
    /// Empty: the API server.
    pub audiences: Vec<String>,
    /// The token dies with the pod.
    pub pod: Option<ObjectRef>,
    /// The pod's node, or the node that the token is bound to itself.
    pub node: Option<ObjectRef>,
    pub secret: Option<ObjectRef>,
    /// From this age on the API server warns that the client should have renewed the token.
    pub warn_after: Option<SignedDuration>,
}

/// A token that is ours, in time, and for the right audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    pub namespace: String,
    pub service_account: ObjectRef,
    pub pod: Option<ObjectRef>,
    pub node: Option<ObjectRef>,
    pub secret: Option<ObjectRef>,
    pub audiences: Vec<String>,
    pub id: String,
    pub expires: Option<Timestamp>,
    pub warn_after: Option<Timestamp>,
    /// From a Secret: valid only while that Secret exists and still holds this token.
    pub legacy: bool,
}

impl VerifiedToken {
    pub fn user(&self) -> User {
        let mut user = User {
            name: service_account_user_name(&self.namespace, &self.service_account.name),
            uid: self.service_account.uid.clone(),
            groups: service_account_groups(&self.namespace).to_vec(),
            ..User::default()
        };
        user.join(AUTHENTICATED);
        let mut tell = |key: &str, value: String| {
            if !value.is_empty() {
                user.extra.insert(key.to_owned(), vec![value]);
            }
        };
        if !self.id.is_empty() {
            tell(CREDENTIAL_ID, format!("JTI={}", self.id));
        }
        if let Some(pod) = &self.pod {
            tell("authentication.kubernetes.io/pod-name", pod.name.clone());
            tell("authentication.kubernetes.io/pod-uid", pod.uid.clone());
        }
        if let Some(node) = &self.node {
            tell("authentication.kubernetes.io/node-name", node.name.clone());
            tell("authentication.kubernetes.io/node-uid", node.uid.clone());
        }
        user
    }
}

/// The JSON inside the token, of both generations.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    pub sub: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iat: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nbf: Option<i64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    jti: String,
    #[serde(default, rename = "kubernetes.io", skip_serializing_if = "Option::is_none")]
    bound: Option<Bound>,
    #[serde(flatten)]
    secret: Option<FromSecret>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: ObjectRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warnafter: Option<i64>,
}

/// The claims of a token that is kept in a Secret.
#[derive(Debug, Serialize, Deserialize)]
struct FromSecret {
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    account_uid: String,
}

impl Claims {
    pub fn bound(spec: &TokenSpec, issuer: &str, lifetime: SignedDuration, now: Timestamp) -> Self {
        let start = now.as_second();
        let after = |age: SignedDuration| start.saturating_add(age.as_secs());
        Claims {
            iss: issuer.to_owned(),
            sub: service_account_user_name(&spec.namespace, &spec.service_account.name),
            aud: spec.audiences.clone(),
            exp: Some(after(lifetime)),
            iat: Some(start),
            nbf: Some(start),
            jti: uuid::Uuid::new_v4().to_string(),
            bound: Some(Bound {
                namespace: spec.namespace.clone(),
                serviceaccount: spec.service_account.clone(),
                pod: spec.pod.clone(),
                node: spec.node.clone(),
                secret: spec.secret.clone(),
                warnafter: spec.warn_after.map(after),
            }),
            secret: None,
        }
    }

    pub fn legacy(namespace: &str, account: &ObjectRef, secret_name: &str) -> Self {
        Claims {
            iss: LEGACY_ISSUER.to_owned(),
            sub: service_account_user_name(namespace, &account.name),
            secret: Some(FromSecret {
                namespace: namespace.to_owned(),
                secret: secret_name.to_owned(),
                account: account.name.clone(),
                account_uid: account.uid.clone(),
            }),
            ..Claims::default()
        }
    }

    pub fn check_dates(&self, now: Timestamp) -> Result<(), TokenError> {
        let now = now.as_second();
        match (self.exp, self.nbf) {
            (Some(end), _) if now >= end => Err(TokenError::Expired(timestamp(end))),
            (_, Some(start)) if now.saturating_add(CLOCK_SKEW) < start => {
                Err(TokenError::NotYetValid(timestamp(start)))
            }
            // Only tokens in Secrets have no end.
            (None, _) if self.iss != LEGACY_ISSUER => Err(TokenError::Claims("it has no end")),
            _ => Ok(()),
        }
    }

    /// Checks that the claims agree with each other. Tokens from Secrets are for the API server alone.
    pub fn to_verified(&self, api_audiences: &[String]) -> Result<VerifiedToken, TokenError> {
        let token = match (&self.bound, &self.secret) {
            (Some(bound), None) if self.iss != LEGACY_ISSUER => VerifiedToken {
                namespace: bound.namespace.clone(),
                service_account: bound.serviceaccount.clone(),
                pod: bound.pod.clone(),
                node: bound.node.clone(),
                secret: bound.secret.clone(),
                audiences: self.aud.clone(),
                id: self.jti.clone(),
                expires: self.exp.map(timestamp),
                warn_after: bound.warnafter.map(timestamp),
                legacy: false,
            },
            (None, Some(secret)) if self.iss == LEGACY_ISSUER => VerifiedToken {
                namespace: secret.namespace.clone(),
                service_account: ObjectRef::new(&secret.account, &secret.account_uid),
                pod: None,
                node: None,
                secret: Some(ObjectRef::new(&secret.secret, "")),
                audiences: api_audiences.to_vec(),
                id: self.jti.clone(),
                expires: self.exp.map(timestamp),
                warn_after: None,
                legacy: true,
            },
            _ => return Err(TokenError::Claims("they do not fit the issuer")),
        };
        let expected = service_account_user_name(&token.namespace, &token.service_account.name);
        if self.sub != expected || token.namespace.is_empty() || token.service_account.name.is_empty() {
            return Err(TokenError::Claims("subject and service account differ"));
        }
        Ok(token)
    }
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// `aud` may be one text instead of a list.
fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(audience) => vec![audience],
        OneOrMany::Many(audiences) => audiences,
    })
}
