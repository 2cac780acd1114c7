//! What Prometheus reads at `/metrics`.

use std::time::Duration;

use minik8s_api::{Resource, Subresource};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::request::RequestInfo;

/// What a request was about, without names: the number of combinations stays small.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

pub struct Metrics {
    registry: Registry,
    requests: Family<AnswerLabels, Counter>,
    durations: Family<RequestLabels, Histogram>,
}

const VERBS: [&str; 12] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "post",
    "put",
    "head",
    "options",
];
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<AnswerLabels, Counter>::default();
        let durations = Family::<RequestLabels, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register(
            "apiserver_request",
            "Requests answered, by verb, resource and code",
            requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time until the answer began, by verb and resource",
            durations.clone(),
        );
        Metrics { registry, requests, durations }
    }
}

impl Metrics {
    /// Only names that exist become labels, or a client could make labels without end.
    pub fn labels(&self, info: &RequestInfo, served: Option<&Resource>) -> RequestLabels {
        let known = |text: &str| if served.is_some() { text.to_owned() } else { String::new() };
        let has_subresource = served.is_some_and(|served| {
            served.subresources.iter().any(|subresource| match subresource {
                Subresource::Status => info.subresource == "status",
                Subresource::Scale { .. } => info.subresource == "scale",
                Subresource::Other { name, .. } => info.subresource == *name,
            })
        });
        RequestLabels {
            verb: if VERBS.contains(&info.verb.as_str()) {
                info.verb.to_uppercase()
            } else {
                "OTHER".to_owned()
            },
            group: known(&info.group),
            version: known(&info.version),
            resource: known(&info.resource),
            subresource: if has_subresource { info.subresource.clone() } else { String::new() },
            scope: match (info.name.is_empty(), info.namespace.is_empty()) {
                (false, _) => "resource",
                (true, false) => "namespace",
                (true, true) => "cluster",
            },
        }
    }

    pub fn observe(&self, labels: RequestLabels, code: u16, took: Duration) {
        if labels.verb != "WATCH" {
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
        let RequestLabels { verb, group, version, resource, subresource, scope } = labels;
        let labels = AnswerLabels { verb, group, version, resource, subresource, scope, code };
        self.requests.get_or_create(&labels).inc();
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
