//! Service account tokens for projected volumes: requested for the pod, renewed well before they expire.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus,
};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;

use super::payload::{TokenKey, token_key};
use crate::pod::DesiredPod;

/// Tokens that live longer are renewed daily all the same.
const LONGEST_USE: SignedDuration = SignedDuration::from_hours(24);
/// How soon a renewal that failed is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(30);

#[derive(Default)]
pub struct TokenCache {
    /// By pod UID.
    tokens: Mutex<BTreeMap<String, BTreeMap<TokenKey, Token>>>,
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    renew_at: Timestamp,
}

/// What a pod's volumes ask for.
fn wanted_tokens(desired_pod: &DesiredPod) -> BTreeSet<TokenKey> {
    let volumes = desired_pod.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let sources = volumes.iter().filter_map(|v| v.projected.as_ref()?.sources.as_ref()).flatten();
    sources.filter_map(|source| source.service_account_token.as_ref()).map(token_key).collect()
}

impl TokenCache {
    /// All tokens that the pod wants, and when the first of them must be renewed.
    pub async fn fetch(
        &self,
        client: &kube::Client,
        desired_pod: &DesiredPod,
        now: Timestamp,
    ) -> Result<(BTreeMap<TokenKey, String>, Option<Timestamp>), kube::Error> {
        let known = self.tokens.lock().get(&desired_pod.uid).cloned().unwrap_or_default();
        let mut current = BTreeMap::new();
        for key in wanted_tokens(desired_pod) {
            let token = match known.get(&key) {
                Some(token) if token.renew_at > now => token.clone(),
                known => match (request(client, desired_pod, &key, now).await, known) {
                    (Ok(token), _) => token,
                    // An old token is better than none: the server may be away.
                    (Err(_), Some(old)) => Token { renew_at: now + RETRY, ..old.clone() },
                    (Err(error), None) => return Err(error),
                },
            };
            current.insert(key, token);
        }
        let renew_at = current.values().map(|token| token.renew_at).min();
        let texts = current.iter().map(|(key, token)| (key.clone(), token.text.clone())).collect();
        if !current.is_empty() {
            self.tokens.lock().insert(desired_pod.uid.clone(), current);
        }
        Ok((texts, renew_at))
    }

    pub fn forget(&self, uid: &str) {
        self.tokens.lock().remove(uid);
    }
}

async fn request(
    client: &kube::Client,
    desired_pod: &DesiredPod,
    key: &TokenKey,
    now: Timestamp,
) -> Result<Token, kube::Error> {
    let status = request_token(client, desired_pod, key).await?;
    let expires = status.expiration_timestamp.map_or(now, |time| time.0);
    Ok(Token { text: status.token.unwrap_or_default(), renew_at: renew_at(now, expires) })
}

/// A new token of the pod's service account, for an audience and so many seconds.
pub async fn request_token(
    client: &kube::Client,
    desired_pod: &DesiredPod,
    (audience, seconds): &TokenKey,
) -> Result<TokenRequestStatus, kube::Error> {
    let account = desired_pod.spec().and_then(|spec| spec.service_account_name.as_deref());
    let api: Api<core::ServiceAccount> = Api::namespaced(client.clone(), &desired_pod.namespace);
    let request = TokenRequest {
        metadata: ObjectMeta::default(),
        spec: Some(TokenRequestSpec {
            audiences: (!audience.is_empty()).then(|| vec![audience.clone()]),
            expiration_seconds: Some(*seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(desired_pod.name.clone()),
                uid: desired_pod.pod.metadata.uid.clone(),
            }),
            ..Default::default()
        }),
        status: None,
    };
    let answer =
        api.create_token_request(account.unwrap_or("default"), &PostParams::default(), &request).await?;
    Ok(answer.status.unwrap_or_default())
}

/// After four fifths of its life.
fn renew_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(now).max(SignedDuration::from_secs(10));
    now.checked_add((life / 5 * 4).min(LONGEST_USE)).unwrap_or(expires)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_in_time() {
        let check = |life: i64, want: i64| {
            let now = Timestamp::from_second(1_000).unwrap();
            let expires = Timestamp::from_second(1_000 + life).unwrap();
            assert_eq!(renew_at(now, expires).as_second() - 1_000, want, "{life}");
        };
        check(3600, 2880);
        check(10 * 86_400, 86_400);
        check(-5, 8);
    }
}
