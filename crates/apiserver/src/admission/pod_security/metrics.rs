//! How often pods were judged and with what result, under upstream's names.

use minik8s_metrics::{Counters, Text};
use minik8s_pod_security::{Level, LevelVersion, NEWEST, Version};

use crate::admission::Operation;

/// Clones count into the same place.
#[derive(Clone)]
pub struct PodSecurityMetrics {
    evaluations: Counters<7>,
    errors: Counters<4>,
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

impl Default for PodSecurityMetrics {
    fn default() -> Self {
        PodSecurityMetrics {
            evaluations: Counters::new(
                "pod_security_evaluations_total",
                "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
                [
                    "decision",
                    "policy_level",
                    "policy_version",
                    "mode",
                    "request_operation",
                    "resource",
                    "subresource",
                ],
            ),
            errors: Counters::new(
                "pod_security_errors_total",
                "Number of errors preventing normal evaluation, which may result in the latest restricted profile being used.",
                ["fatal", "request_operation", "resource", "subresource"],
            ),
        }
    }
}

impl PodSecurityMetrics {
    pub fn write(&self, text: &mut Text) {
        self.evaluations.write(text);
        self.errors.write(text);
    }

    pub fn count(&self, policy: LevelVersion, mode: Mode, is_allowed: bool, about: About<'_>) {
        let (operation, target, subresource) = about;
        self.evaluations.increment(&[
            if is_allowed { "allow" } else { "deny" }.into(),
            policy.level.as_str().into(),
            version(policy).into(),
            match mode {
                Mode::Enforce => "enforce",
                Mode::Audit => "audit",
                Mode::Warn => "warn",
            }
            .into(),
            verb(operation).into(),
            resource(target).into(),
            subresource.to_owned().into(),
        ]);
    }

    /// A namespace's labels made no sense; its pods were judged all the same.
    pub fn count_error(&self, (operation, target, subresource): About<'_>) {
        self.errors.increment(&[
            "false".into(),
            verb(operation).into(),
            resource(target).into(),
            subresource.to_owned().into(),
        ]);
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
