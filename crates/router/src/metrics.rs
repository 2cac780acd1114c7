//! Counts requests by host and code and how long backends took, without a lock held while counting.
//!
//! Hosts are those of the table, never those that clients make up, so that their number is bounded.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

/// Upper bounds in microseconds.
const BUCKETS: [u64; 11] =
    [500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 10_000_000];

#[derive(Debug, Default)]
pub struct Metrics {
    hosts: RwLock<HashMap<Arc<str>, Arc<HostMetrics>>>,
}

#[derive(Debug, Default)]
struct HostMetrics {
    codes: RwLock<BTreeMap<u16, AtomicU64>>,
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Metrics {
    /// Of a request that no route matched, the host is empty.
    pub fn count(&self, host: &Arc<str>, code: u16, took: Duration) {
        if let Some(known) = self.hosts.read().get(host) {
            return known.count(code, took);
        }
        let known = self.hosts.write().entry(host.clone()).or_default().clone();
        known.count(code, took);
    }

    /// In Prometheus' text format.
    pub fn page(&self) -> String {
        let mut hosts: Vec<_> = self.hosts.read().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        hosts.sort_by(|a, b| a.0.cmp(&b.0));
        let mut page = String::new();
        let (requests, duration) =
            ("minik8s_router_requests_total", "minik8s_router_request_duration_seconds");
        let _ = writeln!(page, "# HELP {requests} Requests by host of the routing table and code.");
        let _ = writeln!(page, "# TYPE {requests} counter");
        for (host, of_host) in &hosts {
            for (code, count) in of_host.codes.read().iter() {
                let count = count.load(Ordering::Relaxed);
                let _ = writeln!(page, "{requests}{{host=\"{host}\",code=\"{code}\"}} {count}");
            }
        }
        let _ = writeln!(page, "# HELP {duration} Time until the head of the answer.");
        let _ = writeln!(page, "# TYPE {duration} histogram");
        for (host, of_host) in &hosts {
            of_host.write_histogram(&mut page, duration, host);
        }
        page
    }
}

impl HostMetrics {
    fn count(&self, code: u16, took: Duration) {
        let known = self.codes.read().get(&code).map(|count| count.fetch_add(1, Ordering::Relaxed));
        if known.is_none() {
            self.codes.write().entry(code).or_default().fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BUCKETS.iter().position(|&bound| micros <= bound) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn write_histogram(&self, page: &mut String, name: &str, host: &str) {
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        let mut sum = 0;
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            let _ = writeln!(page, "{name}_bucket{{host=\"{host}\",le=\"{}\"}} {sum}", seconds(*bound));
        }
        let count = self.count.load(Ordering::Relaxed);
        let total = seconds(self.micros.load(Ordering::Relaxed));
        let _ = writeln!(page, "{name}_bucket{{host=\"{host}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(page, "{name}_sum{{host=\"{host}\"}} {total}");
        let _ = writeln!(page, "{name}_count{{host=\"{host}\"}} {count}");
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
