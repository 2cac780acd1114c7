//! Tokens that a webhook knows: it is sent a TokenReview (`authentication.k8s.io/v1`) and says who bears the token. What it
//! said of a token is remembered for a while, by the token's digest; that it could not be asked is not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use minik8s_api::{TokenAuthenticator, TokenUser};
use serde::Deserialize;
use serde_json::json;

use crate::connection::WebhookConnection;
use crate::verdict_cache::VerdictCache;

const TIMEOUT: Duration = Duration::from_secs(10);
/// A refusal is remembered no longer: a user may just have been made.
const LONGEST_REFUSAL: Duration = Duration::from_secs(10);
const CACHE_CAPACITY: usize = 4096;

type Answer = Result<TokenUser, String>;

pub struct TokenWebhook {
    connection: WebhookConnection,
    remember: Duration,
    known: VerdictCache<Answer>,
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: UserInfo,
    audiences: Vec<String>,
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl TokenWebhook {
    /// `path` is a kubeconfig file.
    pub fn read(path: &Path, remember: Duration) -> Result<Arc<TokenWebhook>, String> {
        let connection = WebhookConnection::read(path, TIMEOUT)?;
        Ok(Arc::new(TokenWebhook { connection, remember, known: VerdictCache::new(CACHE_CAPACITY) }))
    }

    fn remember(&self, asked: &str, answer: &Answer) {
        let span = if answer.is_ok() { self.remember } else { self.remember.min(LONGEST_REFUSAL) };
        self.known.put(asked, answer.clone(), span);
    }

    /// What the webhook says; an outer error if it could not be asked.
    async fn ask(&self, token: &str, audiences: &[String]) -> Result<Answer, String> {
        let spec = json!({"token": token, "audiences": audiences});
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        read(&self.connection.post(&review).await?)
    }
}

fn read(answer: &[u8]) -> Result<Answer, String> {
    let review: Review =
        serde_json::from_slice(answer).map_err(|error| format!("it is no TokenReview: {error}"))?;
    let Status { authenticated, user, audiences, error } = review.status;
    if !authenticated || user.username.is_empty() {
        let why = if error.is_empty() { "the webhook does not know it".to_owned() } else { error };
        return Ok(Err(why));
    }
    let UserInfo { username: name, uid, groups, extra } = user;
    Ok(Ok(TokenUser { name, uid, groups, extra, audiences }))
}

#[async_trait]
impl TokenAuthenticator for TokenWebhook {
    async fn authenticate(&self, token: &str, audiences: &[String]) -> Option<Answer> {
        let asked = json!([token, audiences]).to_string();
        if let Some(answer) = self.known.get(&asked) {
            return Some(answer);
        }
        let told = |why: &str| format!("a token, by the webhook: {why}");
        Some(match self.ask(token, audiences).await {
            Ok(answer) => {
                let answer = answer.map_err(|why| told(&why));
                self.remember(&asked, &answer);
                answer
            }
            Err(why) => Err(told(&why)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_with_a_name_is_one() {
        let check = |answer: &str, expected: Option<&str>| {
            let found = read(answer.as_bytes()).ok().and_then(Result::ok);
            assert_eq!(found.map(|user| user.name).as_deref(), expected, "{answer}");
        };
        check(r#"{"status": {"authenticated": true, "user": {"username": "a"}}}"#, Some("a"));
        check(r#"{"status": {"authenticated": false, "user": {"username": "a"}}}"#, None);
        check(r#"{"status": {"authenticated": true}}"#, None);
        check(r#"{"status": {"authenticated": "true", "user": {"username": "a"}}}"#, None);
        check("{}", None);
        check("<html>", None);
    }
}
