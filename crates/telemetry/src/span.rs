//! A span: one piece of work of a trace, with its beginning and end.

use std::time::SystemTime;

use crate::{TraceContext, Weighed};

/// What a span is to others, by OpenTelemetry's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

#[derive(Debug, Clone)]
pub struct Span {
    /// Which part of minik8s did it: `service.name`.
    pub service: &'static str,
    pub name: String,
    pub kind: SpanKind,
    pub context: TraceContext,
    /// The span that has caused it.
    pub parent: Option<u64>,
    pub start: SystemTime,
    pub end: SystemTime,
    pub attributes: Vec<(&'static str, String)>,
    pub failed: bool,
}

impl Weighed for Span {
    fn weight(&self) -> usize {
        let attributes: usize = self.attributes.iter().map(|(_, value)| value.len() + 24).sum();
        size_of::<Span>() + self.name.len() + attributes
    }
}
