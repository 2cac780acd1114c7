//! Requests as spans of their traces, and as examples in histograms.

use minik8s_api::Extension;
use minik8s_telemetry::{Queue, Span, Tracer};

use crate::cluster::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5";

async fn traced() -> (Cluster, Queue<Span>) {
    let queue = Queue::new("spans", 1 << 20);
    let tracer = Some(Tracer::new(queue.clone(), 0.0));
    let extension = Extension { tracer, ..Extension::default() };
    (Cluster::with(Setup { extension, ..Setup::default() }).await, queue)
}

#[tokio::test]
async fn requests_are_spans_of_their_client_s_trace() {
    let (cluster, queue) = traced().await;
    let admin = cluster.admin();
    admin.get("/api/v1/namespaces/default/pods").await.ok();
    assert!(queue.take().is_empty(), "a request without a trace is told of only by chance");
    admin.header("traceparent", PARENT).get("/api/v1/namespaces/default/pods").await.ok();
    admin
        .header("traceparent", PARENT)
        .get("/api/v1/namespaces/default/pods/nobody")
        .await
        .refused(404, "NotFound");
    admin.header("traceparent", &PARENT.replace("-01", "-00")).get("/version").await.ok();
    let spans = queue.take();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["LIST pods", "GET pods"]);
    for span in &spans {
        assert_eq!(span.parent, Some(0xb7ad_6b71_6920_3331));
        assert_eq!(span.context.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert!(span.end >= span.start && !span.failed);
        let all = format!("{span:?}");
        assert!(!all.contains("nobody") && !all.contains("admin"), "no names of objects or users: {all}");
    }
    assert!(spans[1].attributes.contains(&("http.response.status_code", "404".to_owned())));
}

#[tokio::test]
async fn histograms_have_examples_of_traces_where_they_are_asked_for() {
    let (cluster, _queue) = traced().await;
    let admin = cluster.admin();
    admin.header("traceparent", PARENT).get("/api/v1/namespaces/default/pods").await.ok();
    let page = admin.header("accept", OPENMETRICS).get("/metrics").await;
    let text = page.text_whole();
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let has_example = |line: &str| {
        line.starts_with("apiserver_request_duration_seconds_bucket")
            && line.contains("# {trace_id=\"0af7651916cd43dd8448eb211c80319c\"}")
    };
    assert!(text.lines().any(has_example), "{text}");
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(
        text.contains("# TYPE process_cpu_seconds counter\n"),
        "counters are announced without their ending"
    );
    let classic = admin.header("accept", "text/plain").get("/metrics").await.text_whole();
    assert!(!classic.contains("trace_id") && !classic.contains("# EOF"));
    let untraced = Cluster::start().await;
    let page = untraced.admin().header("accept", OPENMETRICS).get("/metrics").await;
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
}
