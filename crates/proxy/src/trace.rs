//! Requests as spans of their traces (W3C trace context), where somebody collects them. Where nobody does, a trace that a
//! client has begun is passed on as it is, and fronts that want to may begin one for requests without.

use std::time::Duration;

use minik8s_telemetry::{Described, RequestSpan, Tracer};
pub use minik8s_telemetry::{TRACEPARENT, TraceContext};

/// A request that is told of.
pub(crate) struct Traced {
    span: RequestSpan,
    method: String,
}

impl Traced {
    /// Also of requests whose trace is not told to anybody: what they cause belongs to it all the same.
    pub fn begin(tracer: &Tracer, traceparent: Option<&[u8]>, method: &str) -> Self {
        let parent = traceparent.and_then(|value| std::str::from_utf8(value).ok());
        let span = tracer.begin(parent);
        Traced { method: if span.context.sampled { method.to_owned() } else { String::new() }, span }
    }

    /// What the backend gets as `traceparent`: it is a child of this span.
    pub fn header(&self) -> String {
        self.span.context.to_string()
    }

    /// `label`: of the route, never what the client made up.
    pub fn end(self, tracer: &Tracer, service: &'static str, label: &str, code: u16, took: Duration) {
        let Traced { span, method } = self;
        tracer.end(span, took, || {
            let attributes = vec![
                ("http.request.method", method.clone()),
                ("http.response.status_code", code.to_string()),
                ("http.route", label.to_owned()),
            ];
            Described { service, name: format!("{method} {label}"), attributes, failed: code >= 500 }
        });
    }
}
