//! How often policies were evaluated, how long it took and what came of it, under upstream's names.

use std::time::Duration;

use minik8s_metrics::{Counters, Histograms, LabelValues, Text};

const SECONDS: [f64; 8] = [0.000_000_5, 0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0, 10.0];

/// Clones count into the same place.
#[derive(Clone)]
pub struct PolicyMetrics {
    checks: Counters<3>,
    check_durations: Histograms<3>,
    mutations: Counters<3>,
    mutation_durations: Histograms<3>,
}

/// What a binding did about a request, the stronger the later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    #[default]
    Allow,
    Audit,
    Warn,
    Deny,
}

impl Action {
    pub fn of(name: &str) -> Self {
        match name {
            "Deny" => Action::Deny,
            "Warn" => Action::Warn,
            _ => Action::Audit,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Audit => "audit",
            Action::Warn => "warn",
            Action::Deny => "deny",
        }
    }
}

const LABELS: [&str; 3] = ["policy", "policy_binding", "enforcement_action"];

impl Default for PolicyMetrics {
    fn default() -> Self {
        PolicyMetrics {
            checks: Counters::new(
                "apiserver_validating_admission_policy_check_total",
                "Evaluations of validating admission policies, by policy, binding and what came of it.",
                LABELS,
            ),
            check_durations: Histograms::new(
                "apiserver_validating_admission_policy_check_duration_seconds",
                "Seconds that an evaluation of a validating admission policy took.",
                &SECONDS,
                LABELS,
            ),
            mutations: Counters::new(
                "apiserver_mutating_admission_policy_check_total",
                "Evaluations of mutating admission policies, by policy and binding.",
                LABELS,
            ),
            mutation_durations: Histograms::new(
                "apiserver_mutating_admission_policy_check_duration_seconds",
                "Seconds that an evaluation of a mutating admission policy took.",
                &SECONDS,
                LABELS,
            ),
        }
    }
}

impl PolicyMetrics {
    pub fn write(&self, text: &mut Text) {
        self.checks.write(text);
        self.check_durations.write(text);
        self.mutations.write(text);
        self.mutation_durations.write(text);
    }

    pub fn observe(&self, policy: &str, binding: &str, action: Action, elapsed: Duration) {
        let labels = labels(policy, binding, action);
        self.checks.increment(&labels);
        self.check_durations.observe(&labels, elapsed);
    }

    pub fn observe_mutation(&self, policy: &str, binding: &str, elapsed: Duration) {
        let labels = labels(policy, binding, Action::Allow);
        self.mutations.increment(&labels);
        self.mutation_durations.observe(&labels, elapsed);
    }
}

fn labels(policy: &str, binding: &str, action: Action) -> LabelValues<3> {
    [policy.to_owned().into(), binding.to_owned().into(), action.name().into()]
}
