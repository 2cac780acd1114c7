//! Bearer tokens at the node's port: who is it (TokenReview), and may they read this page (SubjectAccessReview), asked of
//! the API server as a kubelet asks. So Prometheus scrapes nodes with the token of its ServiceAccount.
//!
//! A token opens pages of metrics and nothing else: logs, exec and the like are the API server's, which has checked more
//! than a page knows of. Nothing is changed by any of them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::answer::Refusal;

/// How long an answer of the API server counts. A token that is revoked opens pages for so long; a kubelet's caches keep
/// it for two minutes and more.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Answers that are kept; strangers who try token after token push out old ones, not the memory.
const MOST_ANSWERS: usize = 256;
/// Questions at once: whoever floods this port with tokens does not flood the API server.
const QUESTIONS: usize = 4;
/// No token of a cluster is longer.
const LONGEST_TOKEN: usize = 16 << 10;

/// A token's fingerprint, and the right that was asked for.
type Question = ([u8; 32], &'static str);

/// Until when it counts, and what it is.
type Answer = (Instant, Result<(), Refusal>);

pub struct TokenAccess {
    client: Client,
    node_name: String,
    answers: Mutex<HashMap<Question, Answer>>,
    questions: Semaphore,
}

impl TokenAccess {
    pub fn new(client: Client, node_name: &str) -> Self {
        TokenAccess {
            client,
            node_name: node_name.to_owned(),
            answers: Mutex::default(),
            questions: Semaphore::new(QUESTIONS),
        }
    }

    /// Whether the bearer of this token may have that page.
    pub async fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let token = bearer(headers).ok_or_else(Refusal::unauthorized)?;
        let right = right_to(method, path).ok_or_else(Refusal::forbidden)?;
        let question = (Sha256::digest(token.as_bytes()).into(), right);
        if let Some(known) = self.known(&question, Instant::now()) {
            return known;
        }
        let _turn = self.questions.acquire().await.map_err(Refusal::internal)?;
        // Asked and answered while this one waited.
        if let Some(known) = self.known(&question, Instant::now()) {
            return known;
        }
        let answer = self.ask(token, right).await?;
        self.keep(question, answer.clone(), Instant::now());
        answer
    }

    fn known(&self, question: &Question, now: Instant) -> Option<Result<(), Refusal>> {
        let answers = self.answers.lock();
        let (until, answer) = answers.get(question)?;
        (*until > now).then(|| answer.clone())
    }

    fn keep(&self, question: Question, answer: Result<(), Refusal>, now: Instant) {
        let mut answers = self.answers.lock();
        if answers.len() >= MOST_ANSWERS {
            answers.retain(|_, (until, _)| *until > now);
        }
        if answers.len() >= MOST_ANSWERS {
            // Those who are refused can be asked about again; those who scrape should not have to.
            answers.retain(|_, (_, answer)| answer.is_ok());
        }
        if answers.len() >= MOST_ANSWERS {
            answers.clear();
        }
        let until = now + if answer.is_ok() { ALLOWED_FOR } else { REFUSED_FOR };
        answers.insert(question, (until, answer));
    }

    /// `Err` outside: the API server does not answer, and nothing is known.
    async fn ask(&self, token: &str, right: &'static str) -> Result<Result<(), Refusal>, Refusal> {
        let cannot = |error: kube::Error| {
            Refusal::internal(format!("the API server does not say who may read this: {error}"))
        };
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await.map_err(cannot)?;
        let status = reviewed.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Err(Refusal::unauthorized()));
        };
        let name = user.username.clone().unwrap_or_default();
        let review = SubjectAccessReview { spec: self.access(user, right), ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await.map_err(cannot)?;
        match reviewed.status.is_some_and(|status| status.allowed) {
            true => Ok(Ok(())),
            false => Ok(Err(Refusal::may_not(&name, &self.node_name, right))),
        }
    }

    fn access(&self, user: UserInfo, right: &str) -> SubjectAccessReviewSpec {
        SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            resource_attributes: Some(ResourceAttributes {
                verb: Some("get".to_owned()),
                version: Some("v1".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some(right.to_owned()),
                name: Some(self.node_name.clone()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        }
    }
}

/// The subresource of `nodes` that a page is; None for what no token opens.
fn right_to(method: &Method, path: &str) -> Option<&'static str> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    match path.trim_end_matches('/') {
        "/metrics" | "/metrics/cadvisor" | "/metrics/resource" | "/metrics/probes" | "/metrics/node" => {
            Some("metrics")
        }
        "/stats/summary" => Some("stats"),
        _ => None,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let is_one = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= LONGEST_TOKEN;
    is_one.then_some(token)
}

#[cfg(test)]
mod tests;
