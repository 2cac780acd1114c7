//! Who decided, and how authorization webhooks fared, under upstream's names. Counted only where a configuration says who is
//! asked: without one, nothing of it is on the way of a request.

use minik8s_api::{AccessAnswer, AnswerSource, AuthorizerStep, Opinion};
use minik8s_auth::Decision;
use minik8s_metrics::{Counters, Histograms, Text};

const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Clones count into the same place.
#[derive(Clone)]
pub struct AuthorizationMetrics {
    decisions: Counters<3>,
    evaluations: Counters<2>,
    durations: Histograms<2>,
    fail_open: Counters<2>,
    excluded: Counters<1>,
    condition_errors: Counters<1>,
}

impl Default for AuthorizationMetrics {
    fn default() -> Self {
        let of_result = ["name", "result"];
        AuthorizationMetrics {
            decisions: Counters::new(
                "apiserver_authorization_decisions_total",
                "Requests that an authorizer allowed or denied, by its type and name.",
                ["type", "name", "decision"],
            ),
            evaluations: Counters::new(
                "apiserver_authorization_webhook_evaluations_total",
                "Questions to authorization webhooks, by name and result.",
                of_result,
            ),
            durations: Histograms::new(
                "apiserver_authorization_webhook_duration_seconds",
                "Seconds that an authorization webhook took, by name and result.",
                &SECONDS,
                of_result,
            ),
            fail_open: Counters::new(
                "apiserver_authorization_webhook_evaluations_fail_open_total",
                "Questions that went on to the next authorizer because a webhook failed, by name and result.",
                of_result,
            ),
            excluded: Counters::new(
                "apiserver_authorization_match_condition_exclusions_total",
                "Questions that were not for a webhook by its match conditions, by name.",
                ["name"],
            ),
            condition_errors: Counters::new(
                "apiserver_authorization_match_condition_evaluation_errors_total",
                "Match conditions that could not be evaluated, by the webhook's name.",
                ["name"],
            ),
        }
    }
}

impl AuthorizationMetrics {
    pub fn write(&self, text: &mut Text) {
        self.decisions.write(text);
        self.evaluations.write(text);
        self.durations.write(text);
        self.fail_open.write(text);
        self.excluded.write(text);
        self.condition_errors.write(text);
    }

    /// An authorizer has allowed or denied.
    pub fn observe_decision(&self, step: &AuthorizerStep, decision: &Decision) {
        let decision = if decision.is_allowed() { "allowed" } else { "denied" };
        self.decisions.increment(&[step.by.name().into(), step.name.clone().into(), decision.into()]);
    }

    /// A webhook was to be asked.
    pub fn observe_webhook(&self, name: &str, answer: &AccessAnswer) {
        let named = || name.to_owned().into();
        match answer.source {
            AnswerSource::Cache => {}
            AnswerSource::Excluded => self.excluded.increment(&[named()]),
            AnswerSource::ConditionFailed => self.condition_errors.increment(&[named()]),
            AnswerSource::Asked { result, took } => {
                let labels = [named(), result.into()];
                self.evaluations.increment(&labels);
                self.durations.observe(&labels, took);
                if answer.error.is_some() && answer.opinion == Opinion::None {
                    self.fail_open.increment(&labels);
                }
            }
        }
    }
}
