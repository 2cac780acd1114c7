//! What Prometheus reads at `/metrics`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use minik8s_api::{Resource, Subresource};
pub use minik8s_metrics::PageFormat;
use minik8s_metrics::{Counters, Histogram, Histograms, Text};
use minik8s_store::Range;
use minik8s_telemetry::TraceContext;

use crate::admission::{PodSecurityMetrics, PolicyMetrics, WebhookMetrics};
use crate::api::Api;
use crate::authorizer::AuthorizationMetrics;
use crate::catalog::Served;
use crate::error::Result;
use crate::flow::{LevelCounts, RequestKind};
use crate::request::RequestInfo;

/// What a request was about, without names: the number of combinations stays small.
#[derive(Debug, Clone)]
pub struct RequestLabels {
    pub verb: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub scope: &'static str,
}

pub struct Metrics {
    requests: Counters<7>,
    durations: Histograms<6>,
    client_certificates: Histogram,
    pub pod_security: PodSecurityMetrics,
    pub webhooks: WebhookMetrics,
    pub policies: PolicyMetrics,
    pub authorization: AuthorizationMetrics,
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
/// Of the time that client certificates have left: from nothing to a year, as upstream has them.
const LEFT: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

impl Default for Metrics {
    fn default() -> Self {
        let of_request = ["verb", "group", "version", "resource", "subresource", "scope"];
        let [verb, group, version, resource, subresource, scope] = of_request;
        Metrics {
            requests: Counters::new(
                "apiserver_request_total",
                "Requests answered, by verb, resource and code.",
                [verb, group, version, resource, subresource, scope, "code"],
            ),
            durations: Histograms::new(
                "apiserver_request_duration_seconds",
                "Time until the answer began, by verb and resource.",
                &BUCKETS,
                of_request,
            ),
            client_certificates: Histogram::new(&LEFT),
            pod_security: PodSecurityMetrics::default(),
            webhooks: WebhookMetrics::default(),
            policies: PolicyMetrics::default(),
            authorization: AuthorizationMetrics::default(),
        }
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

    /// `trace`: what the request belongs to. One that a collector has is an example of its bucket.
    pub fn observe(&self, labels: RequestLabels, code: u16, took: Duration, trace: Option<TraceContext>) {
        let RequestLabels { verb, group, version, resource, subresource, scope } = labels;
        let is_watch = verb == "WATCH";
        let [verb, group, version, resource, subresource] =
            [verb, group, version, resource, subresource].map(Cow::Owned);
        let labels = [verb, group, version, resource, subresource, scope.into()];
        if !is_watch {
            let trace = trace.filter(|trace| trace.sampled).map(|trace| trace.trace_id);
            self.durations.observe_in(&labels, took, trace);
        }
        let [verb, group, version, resource, subresource, scope] = labels;
        let code = code.to_string().into();
        self.requests.increment(&[verb, group, version, resource, subresource, scope, code]);
    }

    /// A request came by a client certificate that has so many seconds left.
    pub fn observe_certificate(&self, left: f64) {
        self.client_certificates.observe(Duration::try_from_secs_f64(left).unwrap_or_default());
    }

    /// The page, with what is counted only when somebody asks. As OpenMetrics it has examples of traces as well.
    pub async fn text(&self, api: &Api, format: PageFormat) -> Result<String> {
        let mut text = Text::new(format);
        self.requests.write(&mut text);
        self.durations.write(&mut text);
        let name = "apiserver_client_certificate_expiration_seconds";
        text.metric(
            name,
            "histogram",
            "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
        );
        self.client_certificates.write(&mut text, name, &[]);
        self.pod_security.write(&mut text);
        self.webhooks.write(&mut text);
        self.policies.write(&mut text);
        self.authorization.write(&mut text);
        write_now(api, &mut text).await?;
        Ok(text.finish())
    }
}

/// The priority levels, but for those whose requests need no seat.
fn flow_control(text: &mut Text, levels: &[(Arc<str>, LevelCounts)]) {
    type Of = fn(&LevelCounts) -> f64;
    let metrics: [(&str, &str, &str, Of); 5] = [
        ("nominal_limit_seats", "gauge", "Seats of a priority level by its shares.", |of| of.seats as f64),
        ("current_executing_seats", "gauge", "Seats that are taken.", |of| of.taken as f64),
        ("current_inqueue_requests", "gauge", "Requests that wait until it is their flow's turn.", |of| {
            of.waiting as f64
        }),
        ("dispatched_requests_total", "counter", "Requests that got a seat.", |of| of.dispatched as f64),
        (
            "rejected_requests_total",
            "counter",
            "Requests that got none: too many waited, or for too long.",
            |of| of.rejected as f64,
        ),
    ];
    for (name, kind, help, of) in metrics {
        let name = format!("apiserver_flowcontrol_{name}");
        text.metric(&name, kind, help);
        for (level, counts) in levels {
            text.sample(&name, &[("priority_level", level)], of(counts), None);
        }
    }
}

/// What is so at this moment.
async fn write_now(api: &Api, text: &mut Text) -> Result<()> {
    let name = "apiserver_current_inflight_requests";
    text.metric(name, "gauge", "Requests that are worked on now, by whether they may change anything.");
    for (name_of_kind, kind) in [("mutating", RequestKind::Mutating), ("readOnly", RequestKind::ReadOnly)] {
        text.sample(name, &[("request_kind", name_of_kind)], api.in_flight.taken(kind) as f64, None);
    }
    flow_control(text, &api.in_flight.levels());
    let name = "apiserver_storage_objects";
    text.metric(name, "gauge", "Number of stored objects at the time of last check, by kind.");
    let snapshot = api.registry.catalog.snapshot();
    for served in snapshot.resources().iter().filter(|served| is_stored(served)) {
        let range = Range { prefix: served.prefix.clone(), limit: 1, ..Range::default() };
        let page = api.registry.store.range(range).await?;
        let count = page.entries.len() as f64 + page.remaining.unwrap_or(0) as f64;
        text.sample(name, &[("resource", &served.qualified())], count, None);
    }
    let used = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    if let Ok(used) = used {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        let name = "process_cpu_seconds_total";
        text.metric(name, "counter", "Total user and system CPU time spent in seconds.");
        text.sample(name, &[], seconds(used.user_time()) + seconds(used.system_time()), None);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    if let Some(kilobytes) = resident.and_then(|text| text.trim().parse::<u64>().ok()) {
        let name = "process_resident_memory_bytes";
        text.metric(name, "gauge", "Resident memory size in bytes.");
        text.sample(name, &[], (kilobytes * 1024) as f64, None);
    }
    Ok(())
}

/// Kinds that are computed are not in the store, and each stored kind counts once, in its own version.
fn is_stored(served: &Served) -> bool {
    served.stored_as.is_none() && ["create", "list"].iter().all(|verb| served.verbs.contains(verb))
}
