//! Requests of the API as spans of their traces.
//!
//! What a span says is what is counted of a request: verb, resource and code, and no name of an object or user.

use std::time::Duration;

use http::{HeaderValue, Request};
use minik8s_telemetry::{Described, RequestSpan, TRACEPARENT, Tracer};

use crate::metrics::RequestLabels;

const SERVICE: &str = "minik8s-apiserver";

/// Whatever the request causes, at a node or an aggregated API, is a child of this span.
pub fn begin<B>(tracer: &Tracer, request: &mut Request<B>) -> RequestSpan {
    let parent = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok());
    let span = tracer.begin(parent);
    if let Ok(value) = HeaderValue::try_from(span.context.to_string()) {
        request.headers_mut().insert(TRACEPARENT, value);
    }
    span
}

pub fn end(tracer: &Tracer, span: RequestSpan, labels: &RequestLabels, code: u16, took: Duration) {
    tracer.end(span, took, || {
        let what = match labels.resource.as_str() {
            "" => "path",
            resource => resource,
        };
        let mut attributes = vec![
            ("k8s.request.verb", labels.verb.clone()),
            ("http.response.status_code", code.to_string()),
            ("k8s.resource.scope", labels.scope.to_owned()),
        ];
        for (name, value) in [
            ("k8s.resource.group", &labels.group),
            ("k8s.resource.version", &labels.version),
            ("k8s.resource.name", &labels.resource),
            ("k8s.resource.subresource", &labels.subresource),
        ] {
            if !value.is_empty() {
                attributes.push((name, value.clone()));
            }
        }
        Described {
            service: SERVICE,
            name: format!("{} {what}", labels.verb),
            attributes,
            failed: code >= 500,
        }
    });
}
