//! Spans of requests on their way from a pod's proxy to its agent, which tells collectors of them.

use std::time::{Duration, SystemTime};

use minik8s_telemetry::{Span, SpanKind, TraceContext};
use serde::{Deserialize, Serialize};

/// Names of attributes that are passed on; a proxy says no others.
const NAMES: [&str; 3] = ["http.request.method", "http.response.status_code", "http.route"];
const SERVICE: &str = "minik8s-mesh";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxySpan {
    /// As in `traceparent`.
    pub context: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    pub name: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// In nanoseconds.
    pub took: u64,
    pub attributes: Vec<(String, String)>,
    #[serde(default)]
    pub failed: bool,
}

impl From<Span> for ProxySpan {
    fn from(span: Span) -> Self {
        let nanoseconds = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let start = span.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        ProxySpan {
            context: span.context.to_string(),
            parent: span.parent,
            name: span.name,
            start: nanoseconds(start),
            took: nanoseconds(span.end.duration_since(span.start).unwrap_or_default()),
            attributes: span.attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            failed: span.failed,
        }
    }
}

impl ProxySpan {
    /// As the agent tells it; `None` if its trace cannot be read.
    pub fn of_pod(self, pod: &str) -> Option<Span> {
        let context: TraceContext = self.context.parse().ok()?;
        let start = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(self.start))?;
        let known = |name: &str| NAMES.iter().find(|known| **known == name).copied();
        let said = self.attributes.into_iter().filter_map(|(name, value)| Some((known(&name)?, value)));
        Some(Span {
            service: SERVICE,
            name: self.name,
            kind: SpanKind::Client,
            context,
            parent: self.parent,
            start,
            end: start.checked_add(Duration::from_nanos(self.took))?,
            attributes: said.chain([("k8s.pod.name", pod.to_owned())]).collect(),
            failed: self.failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_come_through() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let context: TraceContext =
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
        let attributes = vec![("http.request.method", "GET".to_owned()), ("other", "x".to_owned())];
        let span = Span {
            service: "s",
            name: "GET ns/reviews".to_owned(),
            kind: SpanKind::Server,
            context,
            parent: Some(7),
            start,
            end: start + Duration::from_millis(5),
            attributes,
            failed: true,
        };
        let sent = serde_json::to_string(&ProxySpan::from(span)).unwrap();
        let read: ProxySpan = serde_json::from_str(&sent).unwrap();
        let told = read.clone().of_pod("ns/web-1").unwrap();
        assert_eq!((told.context, told.parent, told.start, told.failed), (context, Some(7), start, true));
        assert_eq!(told.end.duration_since(told.start).unwrap(), Duration::from_millis(5));
        let pod = ("k8s.pod.name", "ns/web-1".to_owned());
        assert_eq!(told.attributes, [("http.request.method", "GET".to_owned()), pod]);
        assert!(ProxySpan { context: "nonsense".to_owned(), ..read }.of_pod("ns/p").is_none());
    }
}
