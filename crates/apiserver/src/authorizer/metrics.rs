//! Who decided, and how authorization webhooks fared, under upstream's names. Counted only where a configuration says who is
//! asked: without one, nothing of it is on the way of a request.

use minik8s_api::{AccessAnswer, AnswerSource, AuthorizerStep, Opinion};
use minik8s_auth::Decision;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Clones count into the same place.
#[derive(Clone)]
pub struct AuthorizationMetrics {
    decisions: Family<DecisionLabels, Counter>,
    evaluations: Family<ResultLabels, Counter>,
    durations: Family<ResultLabels, Histogram>,
    fail_open: Family<ResultLabels, Counter>,
    excluded: Family<NameLabel, Counter>,
    condition_errors: Family<NameLabel, Counter>,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    r#type: &'static str,
    name: String,
    decision: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    name: String,
    result: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabel {
    name: String,
}

impl Default for AuthorizationMetrics {
    fn default() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(SECONDS);
        AuthorizationMetrics {
            decisions: Family::default(),
            evaluations: Family::default(),
            durations: Family::new_with_constructor(durations),
            fail_open: Family::default(),
            excluded: Family::default(),
            condition_errors: Family::default(),
        }
    }
}

impl AuthorizationMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_authorization_decisions",
            "Requests that an authorizer allowed or denied, by its type and name",
            self.decisions.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_evaluations",
            "Questions to authorization webhooks, by name and result",
            self.evaluations.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_duration_seconds",
            "Seconds that an authorization webhook took, by name and result",
            self.durations.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_evaluations_fail_open",
            "Questions that went on to the next authorizer because a webhook failed, by name and result",
            self.fail_open.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_exclusions",
            "Questions that were not for a webhook by its match conditions, by name",
            self.excluded.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_evaluation_errors",
            "Match conditions that could not be evaluated, by the webhook's name",
            self.condition_errors.clone(),
        );
    }

    /// An authorizer has allowed or denied.
    pub fn observe_decision(&self, step: &AuthorizerStep, decision: &Decision) {
        let decision = if decision.is_allowed() { "allowed" } else { "denied" };
        let labels = DecisionLabels { r#type: step.by.name(), name: step.name.clone(), decision };
        self.decisions.get_or_create(&labels).inc();
    }

    /// A webhook was to be asked.
    pub fn observe_webhook(&self, name: &str, answer: &AccessAnswer) {
        let named = || NameLabel { name: name.to_owned() };
        match answer.source {
            AnswerSource::Cache => {}
            AnswerSource::Excluded => {
                self.excluded.get_or_create(&named()).inc();
            }
            AnswerSource::ConditionFailed => {
                self.condition_errors.get_or_create(&named()).inc();
            }
            AnswerSource::Asked { result, took } => {
                let labels = ResultLabels { name: name.to_owned(), result };
                self.evaluations.get_or_create(&labels).inc();
                self.durations.get_or_create(&labels).observe(took.as_secs_f64());
                if answer.error.is_some() && answer.opinion == Opinion::None {
                    self.fail_open.get_or_create(&labels).inc();
                }
            }
        }
    }
}
