//! Admission webhooks: web services that are asked about writes, and may change or refuse them.
//!
//! Mutating ones run after every built-in rule, one after the other, and what they change is judged by those rules
//! again; validating ones run side by side before quota is counted. Where no webhook is configured, nothing happens.

mod hook;
mod hooks;
mod metrics;
pub mod review;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde_json::Value;

pub use hooks::Hooks;
pub use metrics::WebhookMetrics;

use self::hook::Hook;
use self::metrics::Kind;
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
    left: Value,
}

impl Webhooks {
    /// Asks the mutating ones in order.
    pub async fn mutate(&self, registry: &Registry, request: &mut Request<'_>) -> Result<Mutation> {
        let hooks = self.hooks.mutating();
        if hooks.is_empty() {
            return Ok(Mutation::default());
        }
        let (before, mut asked) = (request.object.clone(), Vec::new());
        for hook in hooks.iter() {
            if self.mutate_by(hook, registry, request).await? {
                asked.push(Asked { hook: hook.clone(), left: request.object.clone() });
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
        for Asked { hook, left } in mutation.asked {
            if hook.is_reinvoked() && *request.object != left {
                self.mutate_by(&hook, registry, request).await?;
            }
        }
        Ok(())
    }

    /// True if it was asked.
    async fn mutate_by(&self, hook: &Hook, registry: &Registry, request: &mut Request<'_>) -> Result<bool> {
        let Some(subject) = self.subject(hook, registry, request).await? else { return Ok(false) };
        let Some(verdict) = self.ask(Kind::Mutating, hook, &subject, registry, request).await? else {
            return Ok(true);
        };
        if let Some(patch) = &verdict.patch
            && request.operation != Operation::Delete
            && request.is_about_itself()
        {
            subject.change(request, |request| review::patch(registry, request, hook, &subject, patch))?;
        }
        Ok(true)
    }

    /// Asks the validating ones, all at once; the first refusal in their order counts.
    pub async fn validate(&self, registry: &Registry, request: &Request<'_>) -> Result<()> {
        let hooks = self.hooks.validating();
        let asked = hooks.iter().map(|hook| async move {
            match self.subject(hook, registry, request).await? {
                Some(subject) => {
                    self.ask(Kind::Validating, hook, &subject, registry, request).await.map(drop)
                }
                None => Ok(()),
            }
        });
        futures::future::join_all(asked).await.into_iter().collect()
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
        Ok(self.conditions_hold(hook, &subject, request)?.then_some(subject))
    }

    /// Conditions that cannot be evaluated refuse the request, or leave the webhook out, as its policy says.
    fn conditions_hold(&self, hook: &Hook, subject: &Subject, request: &Request<'_>) -> Result<bool> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        let question = subject.question(request);
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
        subject: &Subject,
        registry: &Registry,
        request: &Request<'_>,
    ) -> Result<Option<Verdict>> {
        let begun = Instant::now();
        let mut view = subject.view(request);
        let seen = view.as_mut().map(|view| view.request());
        let answered = review::ask(registry, hook, subject, seen.as_ref().unwrap_or(request)).await;
        let observe = |is_rejected| self.metrics.observe(kind, hook, request.operation, is_rejected, begun);
        match answered {
            Ok(verdict) => {
                verdict.warnings.iter().for_each(|text| request.call.warn(text.clone()));
                observe(verdict.denied.is_some());
                match verdict.denied {
                    Some(error) => Err(error),
                    None => Ok(Some(verdict)),
                }
            }
            Err(why) if hook.is_ignored_when_failing() => {
                tracing::warn!(webhook = hook.name, configuration = hook.configuration, why, "failing open");
                self.metrics.failed_open(kind, hook);
                Ok(None)
            }
            Err(why) => {
                observe(true);
                Err(ApiError::internal(format_args!("failed calling webhook \"{}\": {why}", hook.name)))
            }
        }
    }
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
