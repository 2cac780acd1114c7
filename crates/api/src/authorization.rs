//! Who is asked whether a request is allowed, in which order, where that is not the node authorizer and RBAC alone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

/// The authorizers of a configuration, as they are now: its file may change.
pub trait AuthorizationChain: Send + Sync {
    fn steps(&self) -> Arc<[AuthorizerStep]>;
}

/// One of them. The first that allows or denies decides; where none does, the request is refused.
#[derive(Clone)]
pub struct AuthorizerStep {
    pub name: String,
    pub by: AuthorizerType,
}

#[derive(Clone)]
pub enum AuthorizerType {
    Node,
    Rbac,
    Webhook(Arc<dyn AccessWebhook>),
}

impl AuthorizerType {
    /// As configurations call it.
    pub fn name(&self) -> &'static str {
        match self {
            AuthorizerType::Node => "Node",
            AuthorizerType::Rbac => "RBAC",
            AuthorizerType::Webhook(_) => "Webhook",
        }
    }
}

/// Somebody outside who says whether requests are allowed.
#[async_trait]
pub trait AccessWebhook: Send + Sync {
    /// `spec` is that of a SubjectAccessReview (`authorization.k8s.io/v1`), with all fields, also where they are empty.
    async fn review(&self, spec: &Value) -> AccessAnswer;
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessAnswer {
    pub opinion: Opinion,
    /// In the words of whoever was asked.
    pub reason: String,
    /// Why nobody could say; the opinion is then what the configuration wants in that case.
    pub error: Option<String>,
    pub source: AnswerSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opinion {
    Allow,
    /// Nobody after this one is asked.
    Deny,
    None,
}

/// How an answer was found, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSource {
    /// By the `matchConditions`: the question is not for this one.
    Excluded,
    /// A condition could not be evaluated.
    ConditionFailed,
    /// The same was asked a moment ago.
    Cache,
    /// By a request, which ended as `success`, `timeout` or `error`.
    Asked { result: &'static str, took: Duration },
}
