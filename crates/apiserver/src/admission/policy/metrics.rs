//! How often policies were evaluated, how long it took and what came of it, under upstream's names.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

const SECONDS: [f64; 8] = [0.000_000_5, 0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0, 10.0];

/// Clones count into the same place.
#[derive(Clone)]
pub struct PolicyMetrics {
    checks: Family<Labels, Counter>,
    check_durations: Family<Labels, Histogram>,
    mutations: Family<Labels, Counter>,
    mutation_durations: Family<Labels, Histogram>,
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

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    policy: String,
    policy_binding: String,
    enforcement_action: &'static str,
}

impl Default for PolicyMetrics {
    fn default() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(SECONDS);
        PolicyMetrics {
            checks: Family::default(),
            check_durations: Family::new_with_constructor(durations),
            mutations: Family::default(),
            mutation_durations: Family::new_with_constructor(durations),
        }
    }
}

impl PolicyMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_validating_admission_policy_check",
            "Evaluations of validating admission policies, by policy, binding and what came of it",
            self.checks.clone(),
        );
        registry.register(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "Seconds that an evaluation of a validating admission policy took",
            self.check_durations.clone(),
        );
        registry.register(
            "apiserver_mutating_admission_policy_check",
            "Evaluations of mutating admission policies, by policy and binding",
            self.mutations.clone(),
        );
        registry.register(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "Seconds that an evaluation of a mutating admission policy took",
            self.mutation_durations.clone(),
        );
    }

    pub fn observe(&self, policy: &str, binding: &str, action: Action, elapsed: Duration) {
        let labels = labels(policy, binding, action);
        self.checks.get_or_create(&labels).inc();
        self.check_durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }

    pub fn observe_mutation(&self, policy: &str, binding: &str, elapsed: Duration) {
        let labels = labels(policy, binding, Action::Allow);
        self.mutations.get_or_create(&labels).inc();
        self.mutation_durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }
}

fn labels(policy: &str, binding: &str, action: Action) -> Labels {
    Labels {
        policy: policy.to_owned(),
        policy_binding: binding.to_owned(),
        enforcement_action: action.name(),
    }
}
