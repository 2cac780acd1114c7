//! What Prometheus reads at `/metrics`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use minik8s_api::{Resource, Subresource};
use minik8s_metrics::Text;
use minik8s_store::Range;
use minik8s_telemetry::TraceContext;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::admission::{PodSecurityMetrics, PolicyMetrics, WebhookMetrics};
use crate::api::Api;
use crate::authorizer::AuthorizationMetrics;
use crate::catalog::Served;
use crate::error::Result;
use crate::flow::{LevelCounts, RequestKind};
use crate::request::RequestInfo;

/// What a request was about, without names: the number of combinations stays small.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    pub verb: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub scope: &'static str,
}

/// The trace of a request that took so long.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TraceLabel {
    trace_id: String,
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
    durations: Family<RequestLabels, HistogramWithExemplars<TraceLabel>>,
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
        let mut registry = Registry::default();
        let requests = Family::<AnswerLabels, Counter>::default();
        let durations: Family<RequestLabels, _> =
            Family::new_with_constructor(|| HistogramWithExemplars::new(BUCKETS.into_iter()));
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
        let client_certificates = Histogram::new(LEFT);
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a request",
            client_certificates.clone(),
        );
        let pod_security = PodSecurityMetrics::default();
        pod_security.register(&mut registry);
        let webhooks = WebhookMetrics::default();
        webhooks.register(&mut registry);
        let policies = PolicyMetrics::default();
        policies.register(&mut registry);
        let authorization = AuthorizationMetrics::default();
        authorization.register(&mut registry);
        Metrics {
            registry,
            requests,
            durations,
            client_certificates,
            pod_security,
            webhooks,
            policies,
            authorization,
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
        if labels.verb != "WATCH" {
            let told = trace.filter(|trace| trace.sampled);
            let example = told.map(|trace| TraceLabel { trace_id: format!("{:032x}", trace.trace_id) });
            let time = example.is_some().then(SystemTime::now);
            self.durations.get_or_create(&labels).observe(took.as_secs_f64(), example, time);
        }
        let RequestLabels { verb, group, version, resource, subresource, scope } = labels;
        let labels = AnswerLabels { verb, group, version, resource, subresource, scope, code };
        self.requests.get_or_create(&labels).inc();
    }

    /// A request came by a client certificate that has so long left.
    pub fn observe_certificate(&self, left: f64) {
        self.client_certificates.observe(left);
    }

    /// The page, with what is counted only when somebody asks. As OpenMetrics it has examples of traces as well.
    pub async fn text(&self, api: &Api, format: PageFormat) -> Result<String> {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        let now = now(api).await?;
        Ok(match format {
            PageFormat::Classic => classic(&text) + &now,
            PageFormat::OpenMetrics => {
                format!("{}{}# EOF\n", text.trim_end_matches("# EOF\n"), openmetrics(&now))
            }
        })
    }
}

/// In which form a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFormat {
    /// The text format of Prometheus, which every scraper reads.
    Classic,
    OpenMetrics,
}

impl PageFormat {
    /// OpenMetrics is for its examples: without traces there are none.
    pub fn choose(accept: &str, has_traces: bool) -> Self {
        match has_traces && accept.contains("application/openmetrics-text") {
            true => PageFormat::OpenMetrics,
            false => PageFormat::Classic,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            PageFormat::Classic => "text/plain; version=0.0.4; charset=utf-8",
            PageFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The older format as OpenMetrics: counters are announced without their ending.
fn openmetrics(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for line in page.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) if name.ends_with("_total") => {
                text.push_str(&format!("# {what} {} {rest}\n", name.trim_end_matches("_total")));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// OpenMetrics as the older format: counters are announced by their whole name, and there are no examples. Upstream's
/// `…_count` counters have no other ending there.
fn classic(page: &str) -> String {
    let counters: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(page.len());
    let counts: Vec<&str> = counters.iter().copied().filter(|name| name.ends_with("_count")).collect();
    for line in page.lines().filter(|line| *line != "# EOF") {
        let bare =
            |name: &&str| Some(format!("{name}{}\n", line.strip_prefix(*name)?.strip_prefix("_total")?));
        if let Some(bare) = counts.iter().find_map(bare) {
            text.push_str(&bare);
            continue;
        }
        let announced = line.strip_prefix("# ").and_then(|rest| {
            let mut words = rest.splitn(3, ' ');
            Some((words.next()?, words.next()?, words.next()?))
        });
        match announced {
            Some((what, name, rest)) if counters.contains(&name) && !name.ends_with("_count") => {
                text.push_str(&format!("# {what} {name}_total {rest}\n"));
            }
            _ => {
                text.push_str(if line.contains(" # {") { without_example(line) } else { line });
                text.push('\n');
            }
        }
    }
    text
}

/// `name{labels} value # {example}`: what is before the example. Label values may hold anything but a bare quote.
fn without_example(line: &str) -> &str {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'#' if !is_quoted && at > 0 => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
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
async fn now(api: &Api) -> Result<String> {
    let mut text = Text::default();
    let name = "apiserver_current_inflight_requests";
    text.metric(name, "gauge", "Requests that are worked on now, by whether they may change anything.");
    for (name_of_kind, kind) in [("mutating", RequestKind::Mutating), ("readOnly", RequestKind::ReadOnly)] {
        text.sample(name, &[("request_kind", name_of_kind)], api.in_flight.taken(kind) as f64, None);
    }
    flow_control(&mut text, &api.in_flight.levels());
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
    Ok(text.finish())
}

/// Kinds that are computed are not in the store, and each stored kind counts once, in its own version.
fn is_stored(served: &Served) -> bool {
    served.stored_as.is_none() && ["create", "list"].iter().all(|verb| served.verbs.contains(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_announced_by_their_whole_name() {
        let page = "# HELP a_request Requests.\n# TYPE a_request counter\na_request_total{x=\"y\"} 1\n\
                    # HELP b Seconds.\n# TYPE b histogram\nb_count 2\n# EOF\n";
        let expected = "# HELP a_request_total Requests.\n# TYPE a_request_total counter\n\
                        a_request_total{x=\"y\"} 1\n# HELP b Seconds.\n# TYPE b histogram\nb_count 2\n";
        assert_eq!(classic(page), expected);
        assert_eq!(openmetrics(expected) + "# EOF\n", page);
        let page = "# HELP c_count Refusals.\n# TYPE c_count counter\nc_count_total{x=\"y\"} 1\n# EOF\n";
        let expected = "# HELP c_count Refusals.\n# TYPE c_count counter\nc_count{x=\"y\"} 1\n";
        assert_eq!(classic(page), expected);
    }

    #[test]
    fn examples_are_for_openmetrics_alone() {
        let check = |line: &str, expected: &str| assert_eq!(classic(line), format!("{expected}\n"));
        check(r#"d_bucket{le="1"} 3 # {trace_id="ab"} 0.5 1.5"#, r#"d_bucket{le="1"} 3"#);
        check(r#"d_bucket{a="x # {y",le="1"} 3 # {trace_id="ab"} 0.5"#, r#"d_bucket{a="x # {y",le="1"} 3"#);
        check(r#"d_bucket{a="\"} 1 # {",le="1"} 3"#, r#"d_bucket{a="\"} 1 # {",le="1"} 3"#);
        for (accept, has_traces, expected) in [
            ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", true, PageFormat::OpenMetrics),
            ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", false, PageFormat::Classic),
            ("text/plain", true, PageFormat::Classic),
        ] {
            assert_eq!(PageFormat::choose(accept, has_traces), expected, "{accept}");
        }
    }
}
