//! How often webhooks were asked, how long they took and what came of it, under upstream's names.

use std::time::Instant;

use minik8s_metrics::{Counters, Histograms, Text};

use super::hook::Hook;
use crate::admission::Operation;

const SECONDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Clones count into the same place.
#[derive(Clone)]
pub struct WebhookMetrics {
    durations: Histograms<4>,
    requests: Counters<5>,
    rejections: Counters<5>,
    fail_open: Counters<2>,
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

impl Default for WebhookMetrics {
    fn default() -> Self {
        WebhookMetrics {
            durations: Histograms::new(
                "apiserver_admission_webhook_admission_duration_seconds",
                "Seconds that a webhook took, by its name, the operation and whether it refused.",
                &SECONDS,
                ["name", "operation", "rejected", "type"],
            ),
            requests: Counters::new(
                "apiserver_admission_webhook_request_total",
                "Requests to webhooks, by name, operation, HTTP status and whether they refused.",
                ["name", "operation", "code", "rejected", "type"],
            ),
            rejections: Counters::new(
                "apiserver_admission_webhook_rejection_count",
                "Requests that webhooks refused, or that were refused because a webhook could not be asked.",
                ["name", "operation", "error_type", "rejection_code", "type"],
            ),
            fail_open: Counters::new(
                "apiserver_admission_webhook_fail_open_count",
                "Requests that went on although a webhook could not be asked.",
                ["name", "type"],
            ),
        }
    }
}

impl WebhookMetrics {
    pub fn write(&self, text: &mut Text) {
        self.durations.write(text);
        self.requests.write(text);
        self.rejections.write(text);
        self.fail_open.write(text);
    }

    pub fn observe(&self, kind: Kind, hook: &Hook, operation: Operation, outcome: Outcome, begun: Instant) {
        let (code, rejection) = match outcome {
            Outcome::Allowed => (200, None),
            Outcome::Denied(code) => (code, Some("no_error")),
            Outcome::Failed => (UNAVAILABLE, Some("calling_webhook_error")),
            Outcome::FailedOpen => (UNAVAILABLE, None),
        };
        let name = || hook.name.clone().into();
        let (operation, rejected) = (operation.name(), if rejection.is_some() { "true" } else { "false" });
        let labels = [name(), operation.into(), rejected.into(), kind.name().into()];
        self.durations.observe(&labels, begun.elapsed());
        let code = code.to_string();
        self.requests.increment(&[
            name(),
            operation.into(),
            code.clone().into(),
            rejected.into(),
            kind.name().into(),
        ]);
        if let Some(error_type) = rejection {
            let labels = [name(), operation.into(), error_type.into(), code.into(), kind.name().into()];
            self.rejections.increment(&labels);
        } else if outcome == Outcome::FailedOpen {
            self.fail_open.increment(&[name(), kind.name().into()]);
        }
    }

    /// What a webhook wants cannot be done.
    pub fn patch_failed(&self, hook: &Hook, operation: Operation) {
        self.rejections.increment(&[
            hook.name.clone().into(),
            operation.name().into(),
            "apiserver_internal_error".into(),
            "0".into(),
            Kind::Mutating.name().into(),
        ]);
    }
}
