//! Requests as spans of their traces, on the short way and on hyper's.

use minik8s_telemetry::{Queue, TraceContext, Tracer};

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn backend_is_a_child_of_the_router_s_span() {
    let backend = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h.example / a"], &[("a", &[backend.address])]);
    let queue = Queue::new("spans", 1 << 20);
    lab.shared.tracer.set(Tracer::new(queue.clone(), 0.0)).unwrap();
    let mut client = lab.connect().await;
    // What waits for leave to send its body does not go the short way.
    for expect in [None, Some("100-continue")] {
        let mut asked = request(Method::POST, "h.example", "/x", "body");
        asked.headers_mut().insert("traceparent", PARENT.parse().unwrap());
        if let Some(expect) = expect {
            asked.headers_mut().insert("expect", expect.parse().unwrap());
        }
        assert_eq!(send(&mut client, asked).await.0, StatusCode::OK);
        let spans = queue.take();
        let [span] = spans.as_slice() else { panic!("{spans:?}") };
        let parent: TraceContext = PARENT.parse().unwrap();
        assert_eq!((span.context.trace_id, span.parent), (parent.trace_id, Some(parent.span_id)));
        assert_eq!(span.name, "POST h.example");
        assert_eq!(backend.last().2["traceparent"], span.context.to_string(), "{expect:?}");
    }
    send(&mut client, request(Method::GET, "h.example", "/", "")).await;
    assert!(queue.take().is_empty(), "nobody asked for a trace");
    let passed: TraceContext = backend.last().2["traceparent"].parse().unwrap();
    assert!(!passed.sampled);
}

#[tokio::test]
async fn trace_is_passed_on_as_it_is_where_nobody_collects() {
    let backend = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h.example / a"], &[("a", &[backend.address])]);
    let mut client = lab.connect().await;
    let mut asked = request(Method::GET, "h.example", "/", "");
    asked.headers_mut().insert("traceparent", PARENT.parse().unwrap());
    send(&mut client, asked).await;
    assert_eq!(backend.last().2["traceparent"], PARENT);
    send(&mut client, request(Method::GET, "h.example", "/", "")).await;
    assert!(!backend.last().2.contains_key("traceparent"));
}
