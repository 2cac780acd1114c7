//! How Services get into the kernel. The names are kube-proxy's, but for what it does not count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use minik8s_metrics::{Histogram, Text};

const BUCKETS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// From a pod's change to the rules: others' work is part of it.
const PROGRAMMING_BUCKETS: [f64; 15] =
    [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0];
const FAMILY: (&str, &str) = ("ip_family", "IPv4");

/// How rules were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All that was there was compared with all that is wanted.
    Full,
    /// What changed was changed.
    Partial,
}

#[derive(Debug)]
pub(crate) struct RuleMetrics {
    all: Histogram,
    full: Histogram,
    partial: Histogram,
    programming: Histogram,
    failures: AtomicU64,
    service_changes: AtomicU64,
    endpoint_changes: AtomicU64,
    services: AtomicU64,
    endpoints: AtomicU64,
    /// Of the last change: milliseconds since the epoch.
    last: AtomicU64,
}

impl Default for RuleMetrics {
    fn default() -> Self {
        RuleMetrics {
            all: Histogram::new(&BUCKETS),
            full: Histogram::new(&BUCKETS),
            partial: Histogram::new(&BUCKETS),
            programming: Histogram::new(&PROGRAMMING_BUCKETS),
            failures: AtomicU64::new(0),
            service_changes: AtomicU64::new(0),
            endpoint_changes: AtomicU64::new(0),
            services: AtomicU64::new(0),
            endpoints: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }
}

impl RuleMetrics {
    pub fn synced(&self, extent: Extent, took: Duration, now: Timestamp) {
        self.all.observe(took);
        match extent {
            Extent::Full => self.full.observe(took),
            Extent::Partial => self.partial.observe(took),
        }
        self.last.store(u64::try_from(now.as_millisecond()).unwrap_or_default(), Ordering::Relaxed);
    }

    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub fn service_changed(&self) {
        self.service_changes.fetch_add(1, Ordering::Relaxed);
    }

    pub fn slice_changed(&self) {
        self.endpoint_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The kernel leads these many Services to these many endpoints.
    pub fn set_sizes(&self, services: usize, endpoints: usize) {
        self.services.store(services as u64, Ordering::Relaxed);
        self.endpoints.store(endpoints as u64, Ordering::Relaxed);
    }

    /// Rules follow what made them change at that time.
    pub fn programmed(&self, since: Timestamp, now: Timestamp) {
        // Clocks of other machines may be ahead.
        self.programming.observe(Duration::try_from(now.duration_since(since)).unwrap_or_default());
    }

    pub(super) fn write(&self, text: &mut Text) {
        for (name, help, histogram) in [
            ("kubeproxy_sync_proxy_rules_duration_seconds", "Time that a change of rules took.", &self.all),
            (
                "kubeproxy_sync_full_proxy_rules_duration_seconds",
                "Time that it took to compare all rules and change what differed.",
                &self.full,
            ),
            (
                "kubeproxy_sync_partial_proxy_rules_duration_seconds",
                "Time that it took to change the rules of some Services.",
                &self.partial,
            ),
            (
                "kubeproxy_network_programming_duration_seconds",
                "Time from the change of a pod or Service to the rules that follow from it.",
                &self.programming,
            ),
        ] {
            text.metric(name, "histogram", help);
            histogram.write(text, name, &[FAMILY]);
        }
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        for (name, kind, help, value) in [
            (
                "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
                "gauge",
                "When rules were last changed.",
                count(&self.last) / 1e3,
            ),
            (
                "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
                "counter",
                "Changes of rules that the kernel did not take.",
                count(&self.failures),
            ),
            (
                "kubeproxy_sync_proxy_rules_service_changes_total",
                "counter",
                "Changes of Services that were seen.",
                count(&self.service_changes),
            ),
            (
                "kubeproxy_sync_proxy_rules_endpoint_changes_total",
                "counter",
                "Changes of EndpointSlices that were seen.",
                count(&self.endpoint_changes),
            ),
            ("minik8s_proxy_services", "gauge", "Services that have rules.", count(&self.services)),
            ("minik8s_proxy_endpoints", "gauge", "Endpoints that rules lead to.", count(&self.endpoints)),
        ] {
            text.metric(name, kind, help);
            let labels: &[(&str, &str)] = if name.starts_with("kubeproxy_") { &[FAMILY] } else { &[] };
            text.sample(name, labels, value, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let metrics = RuleMetrics::default();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-01-01T00:00:10.5Z");
        metrics.synced(Extent::Full, Duration::from_millis(900), now);
        metrics.synced(Extent::Partial, Duration::from_millis(7), now);
        metrics.failed();
        metrics.programmed(at("2026-01-01T00:00:10.4Z"), now);
        metrics.programmed(at("2026-01-01T00:00:11Z"), now);
        metrics.set_sizes(3, 7);
        metrics.service_changed();
        let mut text = Text::default();
        metrics.write(&mut text);
        let page = text.finish();
        for line in [
            "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 2",
            "kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family=\"IPv4\"} 0.9",
            "kubeproxy_sync_partial_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.008\"} 1",
            "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.025\"} 1",
            "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.1\"} 2",
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} 1767225610.5",
            "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 1",
            "kubeproxy_sync_proxy_rules_service_changes_total{ip_family=\"IPv4\"} 1",
            "minik8s_proxy_services 3",
            "minik8s_proxy_endpoints 7",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
