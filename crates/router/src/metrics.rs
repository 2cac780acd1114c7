//! Counts requests by host and code and how long backends took, without a lock held while counting.
//!
//! Hosts are those of the table, never those that clients make up, so that their number is bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use minik8s_metrics::{Histogram, Text};
use parking_lot::RwLock;

const BUCKETS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0];
const REQUESTS: &str = "minik8s_router_requests_total";
const DURATION: &str = "minik8s_router_request_duration_seconds";

#[derive(Debug, Default)]
pub struct Metrics {
    hosts: RwLock<HashMap<Arc<str>, Arc<HostMetrics>>>,
}

/// Of one host.
#[derive(Debug)]
pub struct HostMetrics {
    codes: RwLock<BTreeMap<u16, AtomicU64>>,
    took: Histogram,
}

impl Default for HostMetrics {
    fn default() -> Self {
        HostMetrics { codes: RwLock::default(), took: Histogram::new(&BUCKETS) }
    }
}

impl Metrics {
    /// Of a request that no route matched, the host is empty.
    pub fn count(&self, host: &Arc<str>, code: u16, took: Duration) {
        self.of(host).count(code, took);
    }

    /// Where requests of a host are counted.
    pub fn of(&self, host: &Arc<str>) -> Arc<HostMetrics> {
        let known = self.hosts.read().get(host).cloned();
        known.unwrap_or_else(|| self.hosts.write().entry(host.clone()).or_default().clone())
    }

    /// In Prometheus' text format.
    pub fn page(&self) -> String {
        let mut hosts: Vec<_> = self.hosts.read().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        hosts.sort_by(|a, b| a.0.cmp(&b.0));
        let mut text = Text::default();
        text.metric(REQUESTS, "counter", "Requests by host of the routing table and code.");
        for (host, of_host) in &hosts {
            for (code, count) in of_host.codes.read().iter() {
                let labels = [("host", &**host), ("code", &code.to_string())];
                text.sample(REQUESTS, &labels, count.load(Ordering::Relaxed) as f64, None);
            }
        }
        text.metric(DURATION, "histogram", "Time until the head of the answer.");
        for (host, of_host) in &hosts {
            of_host.took.write(&mut text, DURATION, &[("host", host)]);
        }
        text.finish()
    }
}

impl HostMetrics {
    pub fn count(&self, code: u16, took: Duration) {
        let known = self.codes.read().get(&code).map(|count| count.fetch_add(1, Ordering::Relaxed));
        if known.is_none() {
            self.codes.write().entry(code).or_default().fetch_add(1, Ordering::Relaxed);
        }
        self.took.observe(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let metrics = Metrics::default();
        let host: Arc<str> = "a.b".into();
        for (code, millis) in [(200, 1), (200, 3), (503, 0), (200, 20_000)] {
            metrics.count(&host, code, Duration::from_millis(millis));
        }
        let page = metrics.page();
        for line in [
            "minik8s_router_requests_total{host=\"a.b\",code=\"200\"} 3",
            "minik8s_router_requests_total{host=\"a.b\",code=\"503\"} 1",
            "minik8s_router_request_duration_seconds_bucket{host=\"a.b\",le=\"0.0005\"} 1",
            "minik8s_router_request_duration_seconds_bucket{host=\"a.b\",le=\"0.001\"} 2",
            "minik8s_router_request_duration_seconds_bucket{host=\"a.b\",le=\"10\"} 3",
            "minik8s_router_request_duration_seconds_bucket{host=\"a.b\",le=\"+Inf\"} 4",
            "minik8s_router_request_duration_seconds_sum{host=\"a.b\"} 20.004",
            "minik8s_router_request_duration_seconds_count{host=\"a.b\"} 4",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
