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
    requests: Family<RequestLabels, Counter>,
    rejections: Family<RejectionLabels, Counter>,
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

    /// Before the place of its audit annotations.
    pub fn annotation(self) -> &'static str {
        match self {
            Kind::Mutating => "mutation.webhook.admission.k8s.io",
            Kind::Validating => "validating.webhook.admission.k8s.io",
        }
    }

    /// Where it is configured, as kubectl takes it.
    pub fn configuration(self) -> &'static str {
        match self {
            Kind::Mutating => "mutatingwebhookconfiguration",
            Kind::Validating => "validatingwebhookconfiguration",
        }
    }
}

/// What came of asking a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Allowed,
    /// With this HTTP status.
    Denied(u16),
    /// It could not be asked, which refuses the request.
    Failed,
    FailedOpen,
}

/// Upstream's status for a webhook that cannot be asked.
const UNAVAILABLE: u16 = 503;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    name: String,
    operation: &'static str,
    rejected: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    name: String,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RejectionLabels {
    name: String,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
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
        WebhookMetrics {
            durations: Family::new_with_constructor(durations),
            requests: Family::default(),
            rejections: Family::default(),
            fail_open: Family::default(),
        }
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
            "apiserver_admission_webhook_request",
            "Requests to webhooks, by name, operation, HTTP status and whether they refused",
            self.requests.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_rejection_count",
            "Requests that webhooks refused, or that were refused because a webhook could not be asked",
            self.rejections.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_fail_open_count",
            "Requests that went on although a webhook could not be asked",
            self.fail_open.clone(),
        );
    }

    pub fn observe(&self, kind: Kind, hook: &Hook, operation: Operation, outcome: Outcome, begun: Instant) {
        let (code, rejection) = match outcome {
            Outcome::Allowed => (200, None),
            Outcome::Denied(code) => (code, Some("no_error")),
            Outcome::Failed => (UNAVAILABLE, Some("calling_webhook_error")),
            Outcome::FailedOpen => (UNAVAILABLE, None),
        };
        let (name, r#type) = (hook.name.clone(), kind.name());
        let (operation, rejected) = (operation.name(), if rejection.is_some() { "true" } else { "false" });
        let labels = DurationLabels { name: name.clone(), operation, rejected, r#type };
        self.durations.get_or_create(&labels).observe(begun.elapsed().as_secs_f64());
        self.requests
            .get_or_create(&RequestLabels { name: name.clone(), operation, code, rejected, r#type })
            .inc();
        if let Some(error_type) = rejection {
            self.reject(RejectionLabels { name, operation, error_type, rejection_code: code, r#type });
        } else if outcome == Outcome::FailedOpen {
            self.fail_open.get_or_create(&FailOpenLabels { name, r#type }).inc();
        }
    }

    /// What a webhook wants cannot be done.
    pub fn patch_failed(&self, hook: &Hook, operation: Operation) {
        self.reject(RejectionLabels {
            name: hook.name.clone(),
            operation: operation.name(),
            error_type: "apiserver_internal_error",
            rejection_code: 0,
            r#type: Kind::Mutating.name(),
        });
    }

    fn reject(&self, labels: RejectionLabels) {
        self.rejections.get_or_create(&labels).inc();
    }
}
