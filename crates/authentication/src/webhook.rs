//! Tokens that a webhook knows: it is sent a TokenReview (`authentication.k8s.io/v1`) and says who bears the token. Where it
//! is, whom to trust there and who we are stand in a kubeconfig file. What it said of a token is remembered for a while,
//! by the token's digest; that it could not be asked is not.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minik8s_api::{TokenAuthenticator, TokenUser};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::https::Client;

const TIMEOUT: Duration = Duration::from_secs(10);
const LARGEST: usize = 1 << 20;
/// Beyond a bad moment of the webhook it is not asked again for one request.
const TRIES: usize = 2;
const PAUSE: Duration = Duration::from_millis(200);
/// A refusal is remembered no longer: a user may just have been made.
const LONGEST_REFUSAL: Duration = Duration::from_secs(10);
const MOST_REMEMBERED: usize = 4096;

type Answer = Result<TokenUser, String>;

pub struct TokenWebhook {
    url: String,
    client: Client,
    remember: Duration,
    known: Mutex<HashMap<Vec<u8>, (Instant, Answer)>>,
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
    /// Of a kubeconfig file: its first cluster, and its first user's certificate if there is one.
    pub fn read(path: &Path, remember: Duration) -> Result<Arc<TokenWebhook>, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file: Value = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
        let (cluster, user) = (&file["clusters"][0]["cluster"], &file["users"][0]["user"]);
        let url = cluster["server"].as_str().unwrap_or_default().to_owned();
        if !url.starts_with("https://") {
            return Err("clusters[0].cluster.server must be the webhook's https:// address".to_owned());
        }
        let authority = bytes(cluster, "certificate-authority")?.unwrap_or_default();
        let certificate = bytes(user, "client-certificate")?;
        let key = bytes(user, "client-key")?;
        let identity = certificate.as_deref().zip(key.as_deref());
        let client = Client::new(&authority, identity, TIMEOUT, LARGEST)?;
        Ok(Arc::new(TokenWebhook { url, client, remember, known: Mutex::default() }))
    }

    fn remembered(&self, key: &[u8]) -> Option<Answer> {
        let known = self.known.lock();
        known.get(key).filter(|(until, _)| *until > Instant::now()).map(|(_, answer)| answer.clone())
    }

    fn remember(&self, key: Vec<u8>, answer: &Answer) {
        let span = if answer.is_ok() { self.remember } else { self.remember.min(LONGEST_REFUSAL) };
        if span.is_zero() {
            return;
        }
        let mut known = self.known.lock();
        if known.len() >= MOST_REMEMBERED {
            let now = Instant::now();
            known.retain(|_, (until, _)| *until > now);
            if known.len() >= MOST_REMEMBERED {
                known.clear();
            }
        }
        known.insert(key, (Instant::now() + span, answer.clone()));
    }

    /// What the webhook says; an outer error if it could not be asked.
    async fn ask(&self, token: &str, audiences: &[String]) -> Result<Answer, String> {
        let spec = json!({"token": token, "audiences": audiences});
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        let body = bytes::Bytes::from(review.to_string());
        let mut why = String::new();
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            match self.client.post(&self.url, body.clone()).await {
                Ok(answer) => return read(&answer),
                Err(error) => why = error,
            }
        }
        Err(why)
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
        let key = digest(&SHA256, asked.as_bytes()).as_ref().to_vec();
        if let Some(answer) = self.remembered(&key) {
            return Some(answer);
        }
        let told = |why: &str| format!("a token, by the webhook: {why}");
        Some(match self.ask(token, audiences).await {
            Ok(answer) => {
                let answer = answer.map_err(|why| told(&why));
                self.remember(key, &answer);
                answer
            }
            Err(why) => Err(told(&why)),
        })
    }
}

/// A file's bytes, given as data or by its path.
fn bytes(of: &Value, name: &str) -> Result<Option<Vec<u8>>, String> {
    match (&of[format!("{name}-data")], &of[name]) {
        (Value::String(data), _) => {
            STANDARD.decode(data.trim()).map(Some).map_err(|error| format!("{name}-data: {error}"))
        }
        (_, Value::String(file)) => {
            std::fs::read(file).map(Some).map_err(|error| format!("{name} {file}: {error}"))
        }
        _ => Ok(None),
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
