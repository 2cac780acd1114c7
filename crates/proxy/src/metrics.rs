//! Counts requests by route and code and how long backends took, without a lock held while counting.
//!
//! Labels are those of the table, never those that clients make up, so that their number is bounded. So is that of codes,
//! which backends make up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use minik8s_metrics::{Histogram, Text};
use parking_lot::RwLock;

/// Upper bounds in seconds.
pub const DURATION_BUCKETS: [f64; 11] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0];

/// Codes of a label that are counted each; of others their class is.
const MOST_CODES: usize = 64;

#[derive(Debug)]
pub struct Metrics {
    /// What the names of all begin with.
    prefix: &'static str,
    label: &'static str,
    of: RwLock<HashMap<Arc<str>, Arc<LabelMetrics>>>,
}

/// Of one label.
#[derive(Debug)]
pub struct LabelMetrics {
    codes: RwLock<BTreeMap<u16, AtomicU64>>,
    took: Histogram,
}

impl Default for LabelMetrics {
    fn default() -> Self {
        LabelMetrics { codes: RwLock::default(), took: Histogram::new(&DURATION_BUCKETS) }
    }
}

impl Metrics {
    pub fn new(prefix: &'static str, label: &'static str) -> Self {
        Metrics { prefix, label, of: RwLock::default() }
    }

    /// Of a request that no route matched, the label is empty.
    pub fn count(&self, label: &Arc<str>, code: u16, took: Duration) {
        self.of(label).count(code, took);
    }

    /// Where requests of a label are counted.
    pub fn of(&self, label: &Arc<str>) -> Arc<LabelMetrics> {
        let known = self.of.read().get(label).cloned();
        known.unwrap_or_else(|| self.of.write().entry(label.clone()).or_default().clone())
    }

    /// How many requests there were by label and code.
    pub fn counts(&self) -> Vec<(Arc<str>, u16, u64)> {
        let all = self.of.read();
        let each = all.iter().flat_map(|(label, one)| {
            let codes = one.codes.read();
            codes
                .iter()
                .map(|(code, count)| (label.clone(), *code, count.load(Ordering::Relaxed)))
                .collect::<Vec<_>>()
        });
        each.collect()
    }

    /// How long answers took by label: the count of each bucket, and all of it together in nanoseconds.
    pub fn durations(&self) -> Vec<(Arc<str>, Vec<u64>, u64)> {
        let all = self.of.read();
        let each = all.iter().map(|(label, one)| {
            let (buckets, nanoseconds) = one.took.counts();
            (label.clone(), buckets, nanoseconds)
        });
        each.collect()
    }

    /// In Prometheus' text format.
    pub fn page(&self) -> String {
        let mut all: Vec<_> = self.of.read().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let requests = format!("{}_requests_total", self.prefix);
        let duration = format!("{}_request_duration_seconds", self.prefix);
        let mut text = Text::default();
        let help = format!("Requests by {} of the routing table and code.", self.label);
        text.metric(&requests, "counter", &help);
        for (label, one) in &all {
            for (code, count) in one.codes.read().iter() {
                let labels = [(self.label, &**label), ("code", &code.to_string())];
                text.sample(&requests, &labels, count.load(Ordering::Relaxed) as f64, None);
            }
        }
        text.metric(&duration, "histogram", "Time until the head of the answer.");
        for (label, one) in &all {
            one.took.write(&mut text, &duration, &[(self.label, label)]);
        }
        text.finish()
    }
}

impl LabelMetrics {
    pub fn count(&self, code: u16, took: Duration) {
        let known = self.codes.read().get(&code).map(|count| count.fetch_add(1, Ordering::Relaxed));
        if known.is_none() {
            let mut codes = self.codes.write();
            let has_room = codes.len() < MOST_CODES || codes.contains_key(&code);
            let code = if has_room { code } else { code / 100 * 100 };
            codes.entry(code).or_default().fetch_add(1, Ordering::Relaxed);
        }
        self.took.observe(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let metrics = Metrics::new("minik8s_router", "host");
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

    #[test]
    fn codes_of_a_label_are_few() {
        let metrics = Metrics::new("minik8s_router", "host");
        let host: Arc<str> = "a.b".into();
        (100..1000).chain(100..200).for_each(|code| metrics.count(&host, code, Duration::ZERO));
        let counts: BTreeMap<u16, u64> =
            metrics.counts().into_iter().map(|(_, code, count)| (code, count)).collect();
        assert!(counts.len() <= MOST_CODES + 10, "{counts:?}");
        assert_eq!((counts[&101], counts[&700], counts.values().sum::<u64>()), (2, 100, 1000));
    }
}
