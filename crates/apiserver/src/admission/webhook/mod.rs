//! Admission webhooks: web services that are asked about writes, and may change or refuse them.
//!
//! Mutating ones run after every built-in rule, one after the other, and what they change is judged by those rules
//! again; validating ones run side by side before quota is counted. Where no webhook is configured, nothing happens.

mod hook;
mod hooks;
mod metrics;
pub mod review;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde_json::{Value, json};

pub use hooks::Hooks;
pub use metrics::WebhookMetrics;

use self::hook::Hook;
use self::metrics::{Kind, Outcome};
use self::review::Verdict;
use super::matching::{self, Subject};
use super::variables::Variables;
use super::{Admission, Operation, Request};
use crate::authorizer::Authorizer;
use crate::error::{ApiError, Result};
use crate::registry::Registry;

/// The configured webhooks and how they are asked.
pub struct Webhooks {
    pub hooks: Arc<Hooks>,
    pub metrics: WebhookMetrics,
    /// Answers what conditions ask about the user's rights.
    pub authorizer: Arc<Authorizer>,
}

/// A mutating webhook that was asked, and the object as it left it.
struct Asked {
    hook: Arc<Hook>,
    index: usize,
    left: Value,
}

/// When a webhook is asked, as annotations name it.
#[derive(Clone, Copy)]
struct Turn {
    /// Those that are asked again have a second one.
    round: usize,
    index: usize,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round_{}_index_{}", self.round, self.index)
    }
}

impl Webhooks {
    /// Asks the mutating ones in order.
    pub async fn mutate(&self, registry: &Registry, request: &mut Request<'_>) -> Result<Mutation> {
        let hooks = self.hooks.mutating();
        if hooks.is_empty() {
            return Ok(Mutation::default());
        }
        let (before, mut asked) = (request.object.clone(), Vec::new());
        for (index, hook) in hooks.iter().enumerate() {
            if self.mutate_by(hook, Turn { round: 0, index }, registry, request).await? {
                asked.push(Asked { hook: hook.clone(), index, left: request.object.clone() });
            }
        }
        Ok(Mutation { asked, is_changed: before != *request.object })
    }

    /// Asks those once more that want it, if the object is no longer as they left it.
    pub async fn mutate_again(
        &self,
        mutation: Mutation,
        registry: &Registry,
        request: &mut Request<'_>,
    ) -> Result<()> {
        for Asked { hook, index, left } in mutation.asked {
            if hook.is_reinvoked() && *request.object != left {
                self.mutate_by(&hook, Turn { round: 1, index }, registry, request).await?;
            }
        }
        Ok(())
    }

    /// True if it was asked.
    async fn mutate_by(
        &self,
        hook: &Hook,
        turn: Turn,
        registry: &Registry,
        request: &mut Request<'_>,
    ) -> Result<bool> {
        let Some(subject) = self.subject(hook, registry, request).await? else { return Ok(false) };
        let changed = self.patch_by(hook, turn, &subject, registry, request).await;
        let is_mutated = matches!(changed, Ok(true));
        let told = json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": is_mutated});
        request.call.annotate(&format!("mutation.webhook.admission.k8s.io/{turn}"), told.to_string());
        changed.map(|_| true)
    }

    /// True if it changed the object.
    async fn patch_by(
        &self,
        hook: &Hook,
        turn: Turn,
        subject: &Subject,
        registry: &Registry,
        request: &mut Request<'_>,
    ) -> Result<bool> {
        let verdict = self.ask(Kind::Mutating, hook, turn, subject, registry, request).await?;
        let Some(patch) = verdict.and_then(|verdict| verdict.patch) else { return Ok(false) };
        if request.operation == Operation::Delete || !request.is_about_itself() {
            return Ok(false);
        }
        let (before, operation) = (request.object.clone(), request.operation);
        subject
            .change(registry, request, |request| review::patch(registry, request, hook, subject, &patch))
            .await
            .inspect_err(|_| self.metrics.patch_failed(hook, operation))?;
        if request.call.tells_bodies() {
            let told = json!({"configuration": hook.configuration, "webhook": hook.name,
                "patch": patch, "patchType": "JSONPatch"});
            request.call.annotate(&format!("patch.webhook.admission.k8s.io/{turn}"), told.to_string());
        }
        Ok(before != *request.object)
    }

    /// Asks the validating ones, all at once; the first refusal in their order counts.
    pub async fn validate(&self, registry: &Registry, request: &Request<'_>) -> Result<()> {
        let hooks = self.hooks.validating();
        let mut chosen = Vec::new();
        for hook in hooks.iter() {
            if let Some(subject) = self.subject(hook, registry, request).await? {
                chosen.push((hook, subject));
            }
        }
        let mut asking = Vec::new();
        for (index, (hook, subject)) in chosen.iter().enumerate() {
            let turn = Turn { round: 0, index };
            asking.push(self.ask(Kind::Validating, hook, turn, subject, registry, request));
        }
        futures::future::join_all(asking).await.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// As what the webhook sees the request; None if it is none of its business.
    async fn subject(
        &self,
        hook: &Hook,
        registry: &Registry,
        request: &Request<'_>,
    ) -> Result<Option<Subject>> {
        if matching::is_exempt(request.call) {
            return Ok(None);
        }
        let Some(subject) = hook.matching.subject(registry, request).await? else { return Ok(None) };
        Ok(self.conditions_hold(hook, &subject, registry, request).await?.then_some(subject))
    }

    /// Conditions that cannot be evaluated refuse the request, or leave the webhook out, as its policy says.
    async fn conditions_hold(
        &self,
        hook: &Hook,
        subject: &Subject,
        registry: &Registry,
        request: &Request<'_>,
    ) -> Result<bool> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        let question = subject.question(registry, "", request).await?;
        let variables = Variables::new(&question, request.call, &self.authorizer);
        match hook.conditions.hold(&variables.bind()) {
            Ok(hold) => Ok(hold),
            Err(why) if hook.is_ignored_when_failing() => {
                tracing::warn!(webhook = hook.name, configuration = hook.configuration, why, "failing open");
                Ok(false)
            }
            Err(why) => {
                let name = question["name"].as_str().unwrap_or_default();
                Err(ApiError::forbidden(Some(request.call.served.resource()), name, why))
            }
        }
    }

    /// None if it could not be asked and that is no reason to refuse.
    async fn ask(
        &self,
        kind: Kind,
        hook: &Hook,
        turn: Turn,
        subject: &Subject,
        registry: &Registry,
        request: &Request<'_>,
    ) -> Result<Option<Verdict>> {
        let begun = Instant::now();
        let uid = uuid::Uuid::new_v4().to_string();
        let question = subject.question(registry, &uid, request).await?;
        let answered = review::ask(registry, hook, &uid, question).await;
        let observe = |outcome| self.metrics.observe(kind, hook, request.operation, outcome, begun);
        match answered {
            Ok(verdict) => {
                verdict.warnings.iter().for_each(|text| request.call.warn(text.clone()));
                for (key, value) in &verdict.annotations {
                    request.call.annotate(&format!("{}/{key}", hook.name), value.as_str());
                }
                observe(
                    verdict.denied.as_ref().map_or(Outcome::Allowed, |error| Outcome::Denied(error.code)),
                );
                match verdict.denied {
                    Some(error) => Err(error),
                    None => Ok(Some(verdict)),
                }
            }
            Err(why) if hook.is_ignored_when_failing() => {
                tracing::warn!(webhook = hook.name, configuration = hook.configuration, why, "failing open");
                request
                    .call
                    .annotate(&format!("failed-open.{}/{turn}", kind.annotation()), hook.name.as_str());
                observe(Outcome::FailedOpen);
                Ok(None)
            }
            Err(why) => {
                observe(Outcome::Failed);
                Err(unreachable(kind, hook, &why))
            }
        }
    }
}

/// Names the webhook, where it is configured, and what to do about it.
fn unreachable(kind: Kind, hook: &Hook, why: &str) -> ApiError {
    let (name, configuration, resource) = (&hook.name, &hook.configuration, kind.configuration());
    ApiError::internal(format_args!(
        "failed calling webhook \"{name}\": {why} (of {resource} {configuration}: fix its service, set \
         failurePolicy: Ignore, or delete it: requests for webhook configurations are never sent to webhooks)"
    ))
}

/// What the mutating webhooks did.
#[derive(Default)]
pub struct Mutation {
    asked: Vec<Asked>,
    /// The object is another one now: built-in rules look again.
    pub is_changed: bool,
}

#[async_trait]
impl Admission for Arc<Webhooks> {
    async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        self.validate(registry, request).await
    }
}
