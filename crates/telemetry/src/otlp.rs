//! OTLP over HTTP in its JSON form: what collectors take at `/v1/logs` and `/v1/traces`. Pure.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{LogRecord, Span};

pub const LOGS_PATH: &str = "/v1/logs";
pub const TRACES_PATH: &str = "/v1/traces";

/// An `ExportLogsServiceRequest`: a resource for each source.
pub fn logs(records: &[LogRecord]) -> Vec<u8> {
    let mut out = String::from("{\"resourceLogs\":[");
    let groups = grouped(records, |record| std::sync::Arc::as_ptr(&record.source) as usize);
    each(&mut out, &groups, |out, group| {
        out.push_str("{\"resource\":{\"attributes\":");
        let source = group.first().map(|record| &record.source.resource[..]).unwrap_or_default();
        attributes(out, source);
        out.push_str("},\"scopeLogs\":[{\"scope\":{\"name\":\"minik8s\"},\"logRecords\":[");
        each(out, group, |out, record| log_record(out, record));
        out.push_str("]}]}");
    });
    out.push_str("]}");
    out.into_bytes()
}

fn log_record(out: &mut String, record: &LogRecord) {
    let _ = write!(out, "{{\"timeUnixNano\":\"{}\"", record.time);
    let severity = record.severity as u8;
    if severity > 0 {
        let _ = write!(out, ",\"severityNumber\":{severity},\"severityText\":\"{:?}\"", record.severity);
    }
    out.push_str(",\"body\":{\"stringValue\":");
    quoted(out, &record.body);
    out.push_str("},\"attributes\":");
    let stream = record.stream.map(|stream| ("log.iostream", stream.to_owned()));
    let all: Vec<_> = stream.into_iter().chain(record.attributes.iter().cloned()).collect();
    attributes(out, &all);
    out.push('}');
}

/// An `ExportTraceServiceRequest`: a resource for each part that has spans.
pub fn spans(spans: &[Span]) -> Vec<u8> {
    let mut out = String::from("{\"resourceSpans\":[");
    let groups = grouped(spans, |span| span.service.as_ptr() as usize);
    each(&mut out, &groups, |out, group| {
        let service = group.first().map_or("", |span| span.service);
        out.push_str("{\"resource\":{\"attributes\":");
        attributes(out, &[("service.name", service.to_owned())]);
        out.push_str("},\"scopeSpans\":[{\"scope\":{\"name\":\"minik8s\"},\"spans\":[");
        each(out, group, |out, span| one_span(out, span));
        out.push_str("]}]}");
    });
    out.push_str("]}");
    out.into_bytes()
}

fn one_span(out: &mut String, span: &Span) {
    let context = span.context;
    let _ =
        write!(out, "{{\"traceId\":\"{:032x}\",\"spanId\":\"{:016x}\"", context.trace_id, context.span_id);
    if let Some(parent) = span.parent {
        let _ = write!(out, ",\"parentSpanId\":\"{parent:016x}\"");
    }
    out.push_str(",\"name\":");
    quoted(out, &span.name);
    let (start, end) = (nanoseconds(span.start), nanoseconds(span.end));
    let kind = span.kind as u8;
    let _ = write!(
        out,
        ",\"kind\":{kind},\"startTimeUnixNano\":\"{start}\",\"endTimeUnixNano\":\"{end}\",\"attributes\":"
    );
    attributes(out, &span.attributes);
    if span.failed {
        out.push_str(",\"status\":{\"code\":2}");
    }
    out.push('}');
}

fn attributes(out: &mut String, all: &[(&'static str, String)]) {
    out.push('[');
    each(out, all, |out, (key, value)| {
        let _ = write!(out, "{{\"key\":\"{key}\",\"value\":{{\"stringValue\":");
        quoted(out, value);
        out.push_str("}}");
    });
    out.push(']');
}

/// Elements of a list, with commas between them.
pub(crate) fn each<T>(out: &mut String, all: &[T], mut write: impl FnMut(&mut String, &T)) {
    for (at, one) in all.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, one);
    }
}

/// A string of JSON.
pub(crate) fn quoted(out: &mut String, text: &str) {
    // Writing a string into memory cannot fail.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Those of the same key together, in the order in which keys came.
pub(crate) fn grouped<T, K: PartialEq + Copy>(all: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<(K, Vec<&T>)> = Vec::new();
    for one in all {
        let of = key(one);
        // Lines of one source come after each other: the last group is mostly the one.
        match groups.iter_mut().rev().find(|(known, _)| *known == of) {
            Some((_, group)) => group.push(one),
            None => groups.push((of, vec![one])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::{LogSource, Severity, SpanKind, TraceContext};

    #[test]
    fn logs_are_grouped_by_their_source() {
        let web = Arc::new(LogSource::container("n1", ("shop", "web-1", "u1"), "main"));
        let events = Arc::new(LogSource::events("shop"));
        let line = |source: &Arc<LogSource>, time: u64, body: &str| LogRecord {
            source: source.clone(),
            time,
            stream: Some("stderr"),
            severity: Severity::Unspecified,
            body: body.to_owned(),
            attributes: Vec::new(),
        };
        let warning = LogRecord {
            stream: None,
            severity: Severity::Warn,
            attributes: vec![("k8s.event.reason", "BackOff".to_owned())],
            ..line(&events, 7, "again")
        };
        let sent = logs(&[line(&web, 5, "say \"hi\"\u{1}"), warning, line(&web, 6, "ä")]);
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        let resources = sent["resourceLogs"].as_array().unwrap();
        assert_eq!(resources.len(), 2);
        let names = resources[0]["resource"]["attributes"].as_array().unwrap();
        assert!(names.contains(&attribute("k8s.pod.name", "web-1")), "{names:?}");
        assert_eq!(
            resources[0]["scopeLogs"][0]["logRecords"],
            json!([
                {"timeUnixNano": "5", "body": {"stringValue": "say \"hi\"\u{1}"},
                    "attributes": [attribute("log.iostream", "stderr")]},
                {"timeUnixNano": "6", "body": {"stringValue": "ä"},
                    "attributes": [attribute("log.iostream", "stderr")]},
            ])
        );
        assert_eq!(
            resources[1]["scopeLogs"][0]["logRecords"][0],
            json!({"timeUnixNano": "7", "severityNumber": 13, "severityText": "Warn",
                "body": {"stringValue": "again"}, "attributes": [attribute("k8s.event.reason", "BackOff")]})
        );
    }

    #[test]
    fn spans_have_their_place_in_the_trace() {
        let context: TraceContext =
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
        let span = Span {
            service: "apiserver",
            name: "GET pods".to_owned(),
            kind: SpanKind::Server,
            context,
            parent: Some(0x1f),
            start: UNIX_EPOCH + Duration::from_nanos(3),
            end: UNIX_EPOCH + Duration::from_nanos(9),
            attributes: vec![("http.request.method", "GET".to_owned())],
            failed: true,
        };
        let sent: Value = serde_json::from_slice(&spans(&[span])).unwrap();
        assert_eq!(
            sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0],
            json!({"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
                "parentSpanId": "000000000000001f", "name": "GET pods", "kind": 2, "startTimeUnixNano": "3",
                "endTimeUnixNano": "9", "status": {"code": 2},
                "attributes": [{"key": "http.request.method", "value": {"stringValue": "GET"}}]})
        );
    }
}
