//! Asks authorizers one after the other, where a configuration says whom and in which order: the first that allows or denies
//! decides. Members of `system:masters` are not asked about, as in upstream: they are the way back in after a lock-out.

use minik8s_api::{AccessWebhook, AuthorizerStep, AuthorizerType, Opinion};
use minik8s_auth::user::MASTERS;
use minik8s_auth::{Attributes, Decision, User};
use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::Authorizer;

/// A decision and what stood in the way of it.
#[derive(Debug)]
pub struct Judged {
    pub decision: Decision,
    /// Why somebody could not be asked.
    pub error: Option<String>,
    /// The node authorizer had its turn, and nobody before it denied.
    pub(super) by_node: bool,
}

impl Authorizer {
    /// Whether the user may, by everybody who is to be asked.
    pub async fn authorize(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        self.judge(user, wanted).await.decision
    }

    /// The same, and what went wrong on the way.
    pub async fn judge(&self, user: &User, wanted: &Attributes<'_>) -> Judged {
        let Some(chain) = &self.chain else {
            return Judged { decision: self.allows(user, wanted), error: None, by_node: true };
        };
        if user.in_group(MASTERS) {
            return Judged { decision: Decision::allow(""), error: None, by_node: false };
        }
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        let (mut spec, mut by_node) = (None, false);
        let mut decided = None;
        for step in chain.steps().iter() {
            let decision = match &step.by {
                AuthorizerType::Node => {
                    by_node = true;
                    self.by_node(user, wanted)
                }
                AuthorizerType::Rbac => self.by_rbac(user, wanted),
                AuthorizerType::Webhook(webhook) => {
                    let spec = spec.get_or_insert_with(|| review_spec(user, wanted));
                    self.by_webhook(step, &**webhook, spec, &mut errors).await
                }
            };
            match decision {
                Decision::NoOpinion { reason } if reason.is_empty() => {}
                Decision::NoOpinion { reason } => reasons.push(reason),
                other => {
                    self.metrics.observe_decision(step, &other);
                    decided = Some(other);
                    break;
                }
            }
        }
        let decision = decided.unwrap_or_else(|| Decision::no_opinion(reasons.join("\n")));
        Judged { decision, error: Some(errors.join(", ")).filter(|errors| !errors.is_empty()), by_node }
    }

    /// The same for code that cannot wait, such as an expression: it holds up its thread, where webhooks are asked.
    pub fn judge_now(&self, user: &User, wanted: &Attributes<'_>) -> Judged {
        if !self.has_webhooks() {
            return Judged { decision: self.local(user, wanted), error: None, by_node: false };
        }
        match Handle::try_current() {
            Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
                tokio::task::block_in_place(|| handle.block_on(self.judge(user, wanted)))
            }
            _ => {
                let error = Some("authorization webhooks cannot be asked from here".to_owned());
                Judged { decision: Decision::no_opinion(""), error, by_node: false }
            }
        }
    }

    /// Whether rights may come from, or be taken by, somebody whose rules are not known here.
    pub fn has_webhooks(&self) -> bool {
        let is_webhook = |step: &AuthorizerStep| matches!(step.by, AuthorizerType::Webhook(_));
        self.chain.as_ref().is_some_and(|chain| chain.steps().iter().any(is_webhook))
    }

    /// By the authorizers of the cluster itself alone.
    fn local(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        let Some(chain) = &self.chain else { return self.allows(user, wanted) };
        let mut decision = Decision::no_opinion("");
        if user.in_group(MASTERS) {
            return Decision::allow("");
        }
        for step in chain.steps().iter() {
            let next = match step.by {
                AuthorizerType::Node => self.by_node(user, wanted),
                AuthorizerType::Rbac => self.by_rbac(user, wanted),
                AuthorizerType::Webhook(_) => continue,
            };
            if next.is_allowed() {
                return next;
            }
            if !next.reason().is_empty() {
                decision = next;
            }
        }
        decision
    }

    async fn by_webhook(
        &self,
        step: &AuthorizerStep,
        webhook: &dyn AccessWebhook,
        spec: &Value,
        errors: &mut Vec<String>,
    ) -> Decision {
        let answer = webhook.review(spec).await;
        self.metrics.observe_webhook(&step.name, &answer);
        errors.extend(answer.error);
        match answer.opinion {
            Opinion::Allow => Decision::allow(answer.reason),
            Opinion::Deny => Decision::Deny { reason: answer.reason },
            Opinion::None => Decision::no_opinion(answer.reason),
        }
    }
}

/// `spec` of a SubjectAccessReview, with all fields.
fn review_spec(user: &User, wanted: &Attributes<'_>) -> Value {
    let mut spec = json!({"user": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra});
    let Attributes { verb, namespace, api_group, version, resource, subresource, name, .. } = *wanted;
    match wanted.path {
        Some(path) => spec["nonResourceAttributes"] = json!({"path": path, "verb": verb}),
        None => {
            let version = if version.is_empty() { "*" } else { version };
            spec["resourceAttributes"] = json!({"namespace": namespace, "verb": verb, "group": api_group,
                "version": version, "resource": resource, "subresource": subresource, "name": name});
            let equal =
                |(field, value): &(&str, &str)| json!({"key": field, "operator": "In", "values": [value]});
            if !wanted.field_equals.is_empty() {
                let requirements: Vec<Value> = wanted.field_equals.iter().map(equal).collect();
                spec["resourceAttributes"]["fieldSelector"] = json!({"requirements": requirements});
            }
        }
    }
    spec
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
