//! How often pods were judged and with what result, under upstream's names.

use minik8s_pod_security::{Level, LevelVersion, NEWEST, Version};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::admission::Operation;

/// Clones count into the same place.
#[derive(Clone, Default)]
pub struct PodSecurityMetrics {
    evaluations: Family<EvaluationLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EvaluationLabels {
    decision: &'static str,
    policy_level: &'static str,
    policy_version: String,
    mode: &'static str,
    request_operation: &'static str,
    resource: &'static str,
    subresource: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    fatal: &'static str,
    request_operation: &'static str,
    resource: &'static str,
    subresource: String,
}

#[derive(Debug, Clone, Copy)]
pub enum Mode {
    Enforce,
    Audit,
    Warn,
}

#[derive(Debug, Clone, Copy)]
pub enum Target {
    Pod,
    Controller,
}

/// What a request was about.
type About<'a> = (Operation, Target, &'a str);

impl PodSecurityMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "pod_security_evaluations",
            "Number of policy evaluations that occurred, not counting ignored or exempt requests",
            self.evaluations.clone(),
        );
        registry.register(
            "pod_security_errors",
            "Number of errors preventing normal evaluation, which may result in the latest restricted profile being used",
            self.errors.clone(),
        );
    }

    pub fn count(&self, policy: LevelVersion, mode: Mode, is_allowed: bool, about: About<'_>) {
        let (operation, target, subresource) = about;
        let labels = EvaluationLabels {
            decision: if is_allowed { "allow" } else { "deny" },
            policy_level: policy.level.as_str(),
            policy_version: version(policy),
            mode: match mode {
                Mode::Enforce => "enforce",
                Mode::Audit => "audit",
                Mode::Warn => "warn",
            },
            request_operation: verb(operation),
            resource: resource(target),
            subresource: subresource.to_owned(),
        };
        self.evaluations.get_or_create(&labels).inc();
    }

    /// A namespace's labels made no sense; its pods were judged all the same.
    pub fn count_error(&self, (operation, target, subresource): About<'_>) {
        let labels = ErrorLabels {
            fatal: "false",
            request_operation: verb(operation),
            resource: resource(target),
            subresource: subresource.to_owned(),
        };
        self.errors.get_or_create(&labels).inc();
    }
}

/// Versions that do not exist yet share one label, or namespaces could make labels without end.
fn version(policy: LevelVersion) -> String {
    match policy.version {
        _ if policy.level == Level::Privileged => "latest".to_owned(),
        Version::Minor(minor) if minor > NEWEST => "future".to_owned(),
        version => version.to_string(),
    }
}

fn verb(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    }
}

fn resource(target: Target) -> &'static str {
    match target {
        Target::Pod => "pod",
        Target::Controller => "controller",
    }
}
