//! A line of a log, and where it comes from.

use std::sync::Arc;

use crate::Weighed;

/// Where lines come from, by the names of both protocols. Made once for all lines of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSource {
    /// Attributes of the resource, by OpenTelemetry's names.
    pub resource: Vec<(&'static str, String)>,
    /// Labels of Loki's stream: few, and none that grows without end.
    pub labels: Vec<(&'static str, String)>,
}

impl LogSource {
    /// A container of a pod.
    pub fn container(node: &str, (namespace, pod, uid): (&str, &str, &str), container: &str) -> Self {
        LogSource {
            resource: vec![
                ("k8s.node.name", node.to_owned()),
                ("k8s.namespace.name", namespace.to_owned()),
                ("k8s.pod.name", pod.to_owned()),
                ("k8s.pod.uid", uid.to_owned()),
                ("k8s.container.name", container.to_owned()),
            ],
            labels: vec![
                ("node_name", node.to_owned()),
                ("namespace", namespace.to_owned()),
                ("pod", pod.to_owned()),
                ("container", container.to_owned()),
            ],
        }
    }

    /// Events of the API about objects of a namespace.
    pub fn events(namespace: &str) -> Self {
        LogSource {
            resource: vec![
                ("service.name", "kubernetes-events".to_owned()),
                ("k8s.namespace.name", namespace.to_owned()),
            ],
            labels: vec![("job", "kubernetes-events".to_owned()), ("namespace", namespace.to_owned())],
        }
    }
}

/// By OpenTelemetry's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A container prints what it likes.
    Unspecified = 0,
    Info = 9,
    Warn = 13,
}

#[derive(Debug, Clone)]
pub struct LogRecord {
    pub source: Arc<LogSource>,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// `stdout` or `stderr`, for what containers print.
    pub stream: Option<&'static str>,
    pub severity: Severity,
    pub body: String,
    pub attributes: Vec<(&'static str, String)>,
}

impl Weighed for LogRecord {
    fn weight(&self) -> usize {
        let attributes: usize = self.attributes.iter().map(|(_, value)| value.len() + 24).sum();
        size_of::<LogRecord>() + self.body.len() + attributes
    }
}
