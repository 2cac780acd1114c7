//! Loki's push API: what it takes at `/loki/api/v1/push`. Pure.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::LogRecord;
use crate::otlp::{each, grouped, quoted};

pub const PATH: &str = "/loki/api/v1/push";

/// A stream for each source, and for each of `stdout` and `stderr` of it.
pub fn push(records: &[LogRecord]) -> Vec<u8> {
    let mut out = String::from("{\"streams\":[");
    let groups = grouped(records, |record| (Arc::as_ptr(&record.source), record.stream));
    each(&mut out, &groups, |out, group| {
        out.push_str("{\"stream\":{");
        if let Some(first) = group.first() {
            let stream = first.stream.map(|stream| ("stream", stream.to_owned()));
            let labels: Vec<_> = first.source.labels.iter().cloned().chain(stream).collect();
            each(out, &labels, |out, (name, value)| {
                let _ = write!(out, "\"{name}\":");
                quoted(out, value);
            });
        }
        out.push_str("},\"values\":[");
        each(out, group, |out, record| {
            let _ = write!(out, "[\"{}\",", record.time);
            quoted(out, &line(record));
            out.push(']');
        });
        out.push_str("]}");
    });
    out.push_str("]}");
    out.into_bytes()
}

/// What is more than a text becomes JSON, which Loki's own `| json` reads.
fn line(record: &LogRecord) -> String {
    if record.attributes.is_empty() {
        return record.body.clone();
    }
    let mut out = String::from("{\"message\":");
    quoted(&mut out, &record.body);
    for (name, value) in &record.attributes {
        // Labels of Loki have no dots.
        let _ = write!(out, ",\"{}\":", name.replace('.', "_"));
        quoted(&mut out, value);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{LogSource, Severity};

    #[test]
    fn streams_have_their_labels_and_lines_their_time() {
        let source = Arc::new(LogSource::container("n1", ("shop", "web-1", "u1"), "main"));
        let record = |stream, time, body: &str| LogRecord {
            source: source.clone(),
            time,
            stream,
            severity: Severity::Unspecified,
            body: body.to_owned(),
            attributes: Vec::new(),
        };
        let event = LogRecord {
            source: Arc::new(LogSource::events("shop")),
            attributes: vec![("k8s.event.reason", "BackOff".to_owned())],
            ..record(None, 4, "again")
        };
        let records = [
            record(Some("stdout"), 1, "a"),
            record(Some("stderr"), 2, "b\"\n"),
            record(Some("stdout"), 3, "c"),
            event,
        ];
        let sent: Value = serde_json::from_slice(&push(&records)).unwrap();
        let labels = |stream: &str| json!({"node_name": "n1", "namespace": "shop", "pod": "web-1", "container": "main", "stream": stream});
        assert_eq!(
            sent,
            json!({"streams": [
                {"stream": labels("stdout"), "values": [["1", "a"], ["3", "c"]]},
                {"stream": labels("stderr"), "values": [["2", "b\"\n"]]},
                {"stream": {"job": "kubernetes-events", "namespace": "shop"},
                    "values": [["4", "{\"message\":\"again\",\"k8s_event_reason\":\"BackOff\"}"]]},
            ]})
        );
    }
}
