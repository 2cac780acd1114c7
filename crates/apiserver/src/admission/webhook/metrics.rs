//! How often webhooks were asked, how long they took and what came of it, under upstream's names.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::hook::Hook;
use crate::admission::Operation;

const SECONDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Clones count into the same place.
#[derive(Clone)]
pub struct WebhookMetrics {
    durations: Family<DurationLabels, Histogram>,
    fail_open: Family<FailOpenLabels, Counter>,
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Mutating => "admit",
            Kind::Validating => "validating",
        }
    }
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    name: String,
    operation: &'static str,
    rejected: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailOpenLabels {
    name: String,
    r#type: &'static str,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(SECONDS);
        WebhookMetrics { durations: Family::new_with_constructor(durations), fail_open: Family::default() }
    }
}

impl WebhookMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Seconds that a webhook took, by its name, the operation and whether it refused",
            self.durations.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_fail_open_count",
            "Requests that went on although a webhook could not be asked",
            self.fail_open.clone(),
        );
    }

    pub fn observe(&self, kind: Kind, hook: &Hook, operation: Operation, is_rejected: bool, begun: Instant) {
        let labels = DurationLabels {
            name: hook.name.clone(),
            operation: operation.name(),
            rejected: if is_rejected { "true" } else { "false" },
            r#type: kind.name(),
        };
        self.durations.get_or_create(&labels).observe(begun.elapsed().as_secs_f64());
    }

    pub fn failed_open(&self, kind: Kind, hook: &Hook) {
        self.fail_open.get_or_create(&FailOpenLabels { name: hook.name.clone(), r#type: kind.name() }).inc();
    }
}
