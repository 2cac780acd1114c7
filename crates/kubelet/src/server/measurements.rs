//! Streams of metrics: the node's own once a second, and what pods tell of themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use http::Response;
use k8s_openapi::api::core::v1 as core;
use minik8s_metrics::exposition::{Wanted, samples};
use minik8s_metrics::{Layout, Line};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::answer::{self, Body, Refusal};
use super::route::Query;
use crate::context::NodeContext;
use crate::handler;
use crate::stats::Sampler;

const AGENT: &str = "minik8s-metrics/1";
/// How often pods are asked for their own metrics, and how long they may take.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(2);
const SCRAPE_TIMEOUT: Duration = Duration::from_millis(1500);
/// A longer page is not read.
const LARGEST_PAGE: usize = 4 << 20;

/// A line per measurement, and one before it whenever other containers are measured.
pub fn everything(sampler: &Sampler) -> Response<Body> {
    let mut newest = sampler.listen();
    let (sender, chunks) = mpsc::channel::<Bytes>(4);
    tokio::spawn(async move {
        let mut told: Option<Arc<Layout>> = None;
        while newest.changed().await.is_ok() {
            let Some(sampled) = newest.borrow_and_update().clone() else { continue };
            let mut lines = Vec::new();
            if !told.as_ref().is_some_and(|told| Arc::ptr_eq(told, &sampled.layout)) {
                lines.extend(Line::Layout((*sampled.layout).clone()).encode());
                told = Some(sampled.layout.clone());
            }
            lines.extend(Line::Reading(sampled.reading.clone()).encode());
            if sender.send(lines.into()).await.is_err() {
                return;
            }
        }
    });
    answer::streamed(chunks)
}

/// `?pod=NAMESPACE/NAME&metric=NAME`, both as often as needed: a line per round with what the pods' own pages say.
/// A pod names its page by the annotations that Prometheus' users know.
pub fn of_pods(context: &Arc<NodeContext>, query: &Query) -> Result<Response<Body>, Refusal> {
    let wanted = |text: &String| {
        Wanted::parse(text).ok_or_else(|| Refusal::bad_request(format!("metric: {text:?} is no metric")))
    };
    let metrics = query.all("metric").iter().map(wanted).collect::<Result<Vec<_>, _>>()?;
    let pods = query.all("pod");
    let context = context.clone();
    let (sender, chunks) = mpsc::channel::<Bytes>(4);
    tokio::spawn(async move {
        let mut counters: BTreeMap<(String, String), (Instant, f64)> = BTreeMap::new();
        let mut ticks = tokio::time::interval(SCRAPE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let pages = join_all(pods.iter().map(|pod| scrape(&context, pod))).await;
            let mut told: BTreeMap<&str, BTreeMap<String, f64>> = BTreeMap::new();
            for (pod, page) in pods.iter().zip(pages) {
                let Some(page) = page else { continue };
                told.insert(pod, values(&page, pod, &metrics, &mut counters));
            }
            let mut line = serde_json::to_vec(&told).unwrap_or_default();
            line.push(b'\n');
            if sender.send(line.into()).await.is_err() {
                return;
            }
        }
    });
    Ok(answer::streamed(chunks))
}

/// What a page says of these metrics. Counters become rates from their second sight on.
fn values(
    page: &str,
    pod: &str,
    metrics: &[Wanted],
    counters: &mut BTreeMap<(String, String), (Instant, f64)>,
) -> BTreeMap<String, f64> {
    let samples: Vec<_> = samples(page).collect();
    let mut values = BTreeMap::new();
    for wanted in metrics {
        let name = wanted.to_string();
        if let Some(value) = wanted.sum(&samples) {
            values.insert(name, value);
        } else if let Some(count) = wanted.counter(&samples) {
            let now = Instant::now();
            let before = counters.insert((pod.to_owned(), name.clone()), (now, count));
            let Some((at, before)) = before.filter(|(_, before)| *before <= count) else { continue };
            let elapsed = now.duration_since(at).as_secs_f64();
            if elapsed > 0.0 {
                values.insert(name, (count - before) / elapsed);
            }
        }
    }
    values
}

/// The pod's page; None if it has none or does not answer.
async fn scrape(context: &NodeContext, pod: &str) -> Option<String> {
    let (namespace, name) = pod.split_once('/')?;
    let pod = context.pods.by_name(namespace, name)?;
    let (port, path) = page_of(&pod)?;
    let host = pod.status.as_ref().and_then(|status| status.pod_ip.clone())?;
    let page = handler::page((&host, port), &path, AGENT, SCRAPE_TIMEOUT, LARGEST_PAGE).await.ok()?;
    (page.status == 200).then_some(page.body)
}

/// Port and path of the pod's metrics: annotated, or those of a port named `metrics`.
fn page_of(pod: &core::Pod) -> Option<(u16, String)> {
    let annotation = |name: &str| pod.metadata.annotations.as_ref()?.get(name).cloned();
    let path = annotation("prometheus.io/path").unwrap_or_else(|| "/metrics".to_owned());
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    if let Some(port) = annotation("prometheus.io/port") {
        return Some((port.parse().ok()?, path));
    }
    let containers = pod.spec.as_ref()?.containers.iter();
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let named = ports.find(|port| port.name.as_deref() == Some("metrics"))?;
    Some((u16::try_from(named.container_port).ok()?, path))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn where_the_page_is() {
        let check = |annotations: Value, ports: Value, expected: Option<(u16, &str)>| {
            let pod = json!({"metadata": {"annotations": annotations},
                "spec": {"containers": [{"name": "c", "ports": ports}]}});
            let pod: core::Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(page_of(&pod), expected.map(|(port, path)| (port, path.to_owned())));
        };
        check(json!({"prometheus.io/port": "80"}), json!([]), Some((80, "/metrics")));
        check(json!({"prometheus.io/port": "80", "prometheus.io/path": "m"}), json!([]), Some((80, "/m")));
        check(json!({}), json!([{"name": "metrics", "containerPort": 9}]), Some((9, "/metrics")));
        check(json!({"prometheus.io/port": "x"}), json!([]), None);
        check(json!({}), json!([{"containerPort": 9}]), None);
    }

    #[test]
    fn counters_become_rates() {
        let metrics = [Wanted::parse("hits_per_second").unwrap(), Wanted::parse("queue").unwrap()];
        let mut counters = BTreeMap::new();
        let first = values("hits_total 100\nqueue 3\n", "ns/p", &metrics, &mut counters);
        assert_eq!(first, BTreeMap::from([("queue".to_owned(), 3.0)]));
        std::thread::sleep(Duration::from_millis(20));
        let second = values("hits_total 150\n", "ns/p", &metrics, &mut counters);
        assert!(second["hits_per_second"] > 0.0, "{second:?}");
        let fallen = values("hits_total 1\n", "ns/p", &metrics, &mut counters);
        assert_eq!(fallen, BTreeMap::new(), "a counter that began anew");
    }
}
