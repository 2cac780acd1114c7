//! One webhook: whether a question is for it, what it said a moment ago, and what it says.
//!
//! Only a clear answer is one. A webhook that cannot be asked, or says yes and no at once, counts as its failure policy
//! wants: a denial, or no opinion. It never allows by failing.

use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use minik8s_api::{AccessAnswer, AccessWebhook, AnswerSource, Opinion};
use minik8s_authentication::{VerdictCache, WebhookConnection};
use minik8s_cel::authorization::Conditions;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// As many as upstream keeps.
const CACHE_CAPACITY: usize = 8192;

/// What counts when nobody can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    NoOpinion,
    Deny,
}

pub(crate) struct WebhookSettings {
    pub name: String,
    pub timeout: Duration,
    /// How long a yes counts, and how long everything else; zero is not at all.
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    pub failure_policy: FailurePolicy,
    pub conditions: Conditions,
}

pub(crate) struct Webhook {
    settings: WebhookSettings,
    connection: WebhookConnection,
    known: VerdictCache<(Opinion, String)>,
}

#[derive(Deserialize)]
struct Review {
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
    evaluation_error: String,
}

impl Webhook {
    /// `path` is a kubeconfig file.
    pub fn read(path: &Path, settings: WebhookSettings) -> Result<Self, String> {
        let connection = WebhookConnection::read(path, settings.timeout)?;
        Ok(Webhook { settings, connection, known: VerdictCache::new(CACHE_CAPACITY) })
    }

    async fn ask(&self, question: &Value) -> Result<(Opinion, String), String> {
        let review =
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": question});
        let limit = self.settings.timeout;
        let answer = tokio::time::timeout(limit, self.connection.post(&review)).await;
        read(&answer.map_err(|_| format!("no answer within {limit:?}"))??)
    }

    fn failed(&self, why: &str, source: AnswerSource) -> AccessAnswer {
        let error = format!("authorization webhook {}: {why}", self.settings.name);
        tracing::warn!(
            webhook = self.settings.name,
            cause = why,
            "an authorization webhook could not be asked"
        );
        let opinion = match self.settings.failure_policy {
            FailurePolicy::NoOpinion => Opinion::None,
            FailurePolicy::Deny => Opinion::Deny,
        };
        AccessAnswer { opinion, reason: String::new(), error: Some(error), source }
    }
}

#[async_trait]
impl AccessWebhook for Webhook {
    async fn review(&self, spec: &Value) -> AccessAnswer {
        match self.settings.conditions.hold(spec) {
            Ok(true) => {}
            Ok(false) => {
                let (opinion, source) = (Opinion::None, AnswerSource::Excluded);
                return AccessAnswer { opinion, reason: String::new(), error: None, source };
            }
            Err(why) => return self.failed(&why, AnswerSource::ConditionFailed),
        }
        let question = without_empty(spec);
        let key = question.to_string();
        if let Some((opinion, reason)) = self.known.get(&key) {
            return AccessAnswer { opinion, reason, error: None, source: AnswerSource::Cache };
        }
        let begun = Instant::now();
        let answer = self.ask(&question).await;
        let took = begun.elapsed();
        match answer {
            Ok((opinion, reason)) => {
                let span = match opinion {
                    Opinion::Allow => self.settings.authorized_ttl,
                    Opinion::Deny | Opinion::None => self.settings.unauthorized_ttl,
                };
                self.known.put(&key, (opinion, reason.clone()), span);
                let source = AnswerSource::Asked { result: "success", took };
                AccessAnswer { opinion, reason, error: None, source }
            }
            Err(why) => {
                let result = if took >= self.settings.timeout { "timeout" } else { "error" };
                self.failed(&why, AnswerSource::Asked { result, took })
            }
        }
    }
}

fn read(answer: &[u8]) -> Result<(Opinion, String), String> {
    let review: Review =
        serde_json::from_slice(answer).map_err(|error| format!("it is no SubjectAccessReview: {error}"))?;
    let Status { allowed, denied, reason, evaluation_error } =
        review.status.ok_or("it is no SubjectAccessReview: there is no status")?;
    match (allowed, denied) {
        (true, true) => Err("webhook subject access review returned both allow and deny response".to_owned()),
        (true, false) => Ok((Opinion::Allow, reason)),
        (false, true) => Ok((Opinion::Deny, reason)),
        (false, false) if !evaluation_error.is_empty() && reason.is_empty() => {
            Ok((Opinion::None, evaluation_error))
        }
        (false, false) => Ok((Opinion::None, reason)),
    }
}

/// As clients write it: what is empty is left out.
fn without_empty(value: &Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_allows() {
        let check = |answer: &str, expected: Option<Opinion>| {
            assert_eq!(read(answer.as_bytes()).ok().map(|(opinion, _)| opinion), expected, "{answer}");
        };
        check(r#"{"status": {"allowed": true}}"#, Some(Opinion::Allow));
        check(r#"{"status": {"allowed": false}}"#, Some(Opinion::None));
        check(r#"{"status": {"denied": true}}"#, Some(Opinion::Deny));
        check(r#"{"status": {}}"#, Some(Opinion::None));
        check(r#"{"status": {"allowed": true, "denied": true}}"#, None);
        check(r#"{"status": {"allowed": "true"}}"#, None);
        check("{}", None);
        check("<html>", None);
    }

    #[test]
    fn fuzz_answers_of_authorization_webhooks_are_foreign_bytes() {
        let good = br#"{"apiVersion":"authorization.k8s.io/v1","status":{"allowed":false,"reason":"no"}}"#;
        let corpus = minik8s_fuzz::Corpus { inputs: &[good], words: &["true", "denied", "evaluationError"] };
        minik8s_fuzz::fuzz("authorization webhook", 1, corpus, |input| drop(read(input)));
    }

    #[test]
    fn questions_are_written_as_clients_write_them() {
        let spec = json!({"user": "ann", "uid": "", "groups": ["a"], "extra": {},
            "resourceAttributes": {"verb": "get", "namespace": ""}});
        let expected = json!({"user": "ann", "groups": ["a"], "resourceAttributes": {"verb": "get"}});
        assert_eq!(without_empty(&spec), expected);
    }
}
