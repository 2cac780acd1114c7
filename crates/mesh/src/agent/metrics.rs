//! Requests between pods and Services, and what became of connections to pods, as the proxies of this node tell them. Their
//! number is bounded by pods, Services and policies: nothing that a client sends is a label.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use minik8s_meta::mesh::RequestTotals;
use minik8s_metrics::{Text, write_counts};
use minik8s_proxy::{DURATION_BUCKETS, Shared};
use parking_lot::Mutex;

use crate::protocol::{Durations, InboundCount, Report, RequestCount};
use crate::sidecar::Outbound;

const REQUESTS: &str = "minik8s_mesh_requests_total";
const DURATION: &str = "minik8s_mesh_request_duration_seconds";
const INBOUND: &str = "minik8s_mesh_inbound_total";

#[derive(Debug, Default)]
pub struct Metrics {
    /// By the pod: namespace and name.
    pods: Mutex<BTreeMap<String, Counts>>,
    /// The node's own proxy, under a name that no pod has.
    node: OnceLock<(String, Arc<Shared<Outbound>>)>,
}

#[derive(Debug, Default)]
struct Counts {
    /// The Deployment or whatever else the pod is of.
    workload: String,
    /// Of processes that have ended: a new one begins at nothing, and sums never fall.
    past: Sums,
    /// Of each process of its proxy.
    processes: BTreeMap<u64, Sums>,
}

impl Counts {
    fn all(&self) -> Sums {
        let mut all = self.past.clone();
        self.processes.values().for_each(|one| all.add(one));
        all
    }
}

#[derive(Debug, Default, Clone)]
struct Sums {
    requests: Vec<RequestCount>,
    durations: Vec<Durations>,
    inbound: Vec<InboundCount>,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        let request = |one: &RequestCount| (one.service.clone(), one.code);
        merge(&mut self.requests, &other.requests, request, |known, one| known.count += one.count);
        let service = |one: &Durations| one.service.clone();
        merge(&mut self.durations, &other.durations, service, |known, one| {
            known.buckets.iter_mut().zip(&one.buckets).for_each(|(sum, count)| *sum += count);
            known.nanoseconds += one.nanoseconds;
        });
        let inbound = |one: &InboundCount| (one.what.clone(), one.policy.clone());
        merge(&mut self.inbound, &other.inbound, inbound, |known, one| known.count += one.count);
    }
}

/// Adds to what is known of the same. It is not looked for in all: a proxy may count thousands of Services.
fn merge<T: Clone, K: Eq + Hash>(
    known: &mut Vec<T>,
    more: &[T],
    key: impl Fn(&T) -> K,
    add: impl Fn(&mut T, &T),
) {
    let mut places: HashMap<K, usize> = known.iter().enumerate().map(|(at, one)| (key(one), at)).collect();
    for one in more {
        let place = *places.entry(key(one)).or_insert(known.len());
        match known.get_mut(place) {
            Some(same) => add(same, one),
            None => known.push(one.clone()),
        }
    }
}

impl Metrics {
    /// Processes of proxies tell sums since they were started, of what has changed.
    pub(super) fn set(&self, pod: &str, process: u64, report: Report) {
        let mut pods = self.pods.lock();
        let counts = pods.entry(pod.to_owned()).or_default().processes.entry(process).or_default();
        if !report.requests.is_empty() {
            counts.requests = report.requests;
        }
        if !report.durations.is_empty() {
            counts.durations = report.durations;
        }
        if !report.inbound.is_empty() {
            counts.inbound = report.inbound;
        }
    }

    /// A process has ended, and what it has counted stays.
    pub(super) fn end(&self, pod: &str, process: u64) {
        if let Some(counts) = self.pods.lock().get_mut(pod)
            && let Some(last) = counts.processes.remove(&process)
        {
            counts.past.add(&last);
        }
    }

    /// The node's own proxy counts, too.
    pub(super) fn count_of_node(&self, node: &str, shared: Arc<Shared<Outbound>>) {
        let _ = self.node.set((format!("/{node}"), shared));
    }

    fn count_node(&self) {
        if let Some((name, shared)) = self.node.get() {
            let report = Report::of(&shared.metrics);
            if !report.requests.is_empty() {
                self.name(name, "node");
                self.set(name, 0, report);
            }
        }
    }

    /// Requests to a Service, by the pod that sent them.
    pub(super) fn totals(&self, service: &str) -> BTreeMap<String, RequestTotals> {
        self.count_node();
        let pods = self.pods.lock();
        let each = pods.iter().map(|(pod, counts)| {
            let mut totals = RequestTotals::default();
            for one in counts.all().requests.iter().filter(|one| one.service == service) {
                totals.total += one.count;
                totals.failed += if one.code >= 500 { one.count } else { 0 };
            }
            (pod.clone(), totals)
        });
        each.filter(|(_, totals)| totals.total > 0).collect()
    }

    pub(super) fn name(&self, pod: &str, workload: &str) {
        let mut pods = self.pods.lock();
        let counts = pods.entry(pod.to_owned()).or_default();
        if counts.workload != workload {
            workload.clone_into(&mut counts.workload);
        }
    }

    pub(super) fn forget(&self, pod: &str) {
        self.pods.lock().remove(pod);
    }

    /// In Prometheus' text format; empty where there is no mesh.
    pub fn page(&self) -> String {
        self.count_node();
        let pods = self.pods.lock();
        if pods.is_empty() {
            return String::new();
        }
        let pods: Vec<(&String, &Counts, Sums)> =
            pods.iter().map(|(pod, counts)| (pod, counts, counts.all())).collect();
        let mut text = Text::default();
        text.metric(REQUESTS, "counter", "Requests of pods to Services, by code.");
        for (source, counts, sums) in &pods {
            for one in &sums.requests {
                let labels = [
                    &source_labels(source, counts)[..],
                    &[("destination_service", one.service.as_str()), ("code", &one.code.to_string())],
                ];
                text.sample(REQUESTS, &labels.concat(), one.count as f64, None);
            }
        }
        text.metric(
            DURATION,
            "histogram",
            "Time until the head of the answer, as the asking pod's proxy saw it.",
        );
        for (source, counts, sums) in &pods {
            for one in &sums.durations {
                let labels =
                    [&source_labels(source, counts)[..], &[("destination_service", one.service.as_str())]];
                let total = Duration::from_nanos(one.nanoseconds);
                let metric = (DURATION, &labels.concat()[..]);
                write_counts(&mut text, metric, &DURATION_BUCKETS, &one.buckets, total);
            }
        }
        text.metric(
            INBOUND,
            "counter",
            "Connections and requests to pods, by how they were secured or refused.",
        );
        for (pod, _, sums) in &pods {
            let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
            for one in &sums.inbound {
                let labels = [
                    ("destination_namespace", namespace),
                    ("destination_pod", name),
                    ("what", one.what.as_str()),
                    ("policy", one.policy.as_str()),
                ];
                text.sample(INBOUND, &labels, one.count as f64, None);
            }
        }
        text.finish()
    }
}

fn source_labels<'a>(pod: &'a str, counts: &'a Counts) -> [(&'a str, &'a str); 3] {
    let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
    [("source_namespace", namespace), ("source_workload", &counts.workload), ("source_pod", name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_source_and_destination() {
        let metrics = Metrics::default();
        assert_eq!(metrics.page(), "");
        metrics.name("ns/web-1", "web");
        let buckets = (0..=DURATION_BUCKETS.len() as u64).map(|at| u64::from(at == 1) * 3).collect();
        let service = "ns/reviews".to_owned();
        metrics.set(
            "ns/web-1",
            0,
            Report {
                requests: vec![RequestCount { service: service.clone(), code: 200, count: 3 }],
                durations: vec![Durations { service, buckets, nanoseconds: 2_500_000 }],
                inbound: vec![InboundCount {
                    what: "denied".to_owned(),
                    policy: "ns/p".to_owned(),
                    count: 2,
                }],
                ..Report::default()
            },
        );
        metrics.set("ns/web-1", 0, Report { applied: Some(1), ..Report::default() });
        let source = "source_namespace=\"ns\",source_workload=\"web\",source_pod=\"web-1\",destination_service=\"ns/reviews\"";
        let page = metrics.page();
        for line in [
            format!("minik8s_mesh_requests_total{{{source},code=\"200\"}} 3"),
            format!("minik8s_mesh_request_duration_seconds_bucket{{{source},le=\"0.0005\"}} 0"),
            format!("minik8s_mesh_request_duration_seconds_bucket{{{source},le=\"0.001\"}} 3"),
            format!("minik8s_mesh_request_duration_seconds_bucket{{{source},le=\"+Inf\"}} 3"),
            format!("minik8s_mesh_request_duration_seconds_sum{{{source}}} 0.0025"),
            format!("minik8s_mesh_request_duration_seconds_count{{{source}}} 3"),
            "minik8s_mesh_inbound_total{destination_namespace=\"ns\",destination_pod=\"web-1\",what=\"denied\",policy=\"ns/p\"} 2"
                .to_owned(),
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        metrics.end("ns/web-1", 0);
        assert_eq!(metrics.page(), page, "what was counted stays");
        let more = |service: &str, code| RequestCount { service: service.to_owned(), code, count: 4 };
        let requests = vec![more("ns/ratings", 200), more("ns/reviews", 200), more("ns/reviews", 503)];
        metrics.set("ns/web-1", 1, Report { requests, ..Report::default() });
        let page = metrics.page();
        let counts = page.lines().filter(|line| line.starts_with("minik8s_mesh_requests_total"));
        let counts: Vec<&str> = counts.filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(counts, ["7", "4", "4"], "what is of the same is one: {page}");
        metrics.forget("ns/web-1");
        assert_eq!(metrics.page(), "");
    }
}
