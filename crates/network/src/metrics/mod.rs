//! What the node's network does, under the names that users of CoreDNS and kube-proxy know, so that their dashboards
//! and alerts work. Counting never waits and decides nothing.

mod dns;
mod rules;

use std::sync::Arc;

use minik8s_metrics::Text;

pub use dns::{DnsMetrics, Exchange};
pub(crate) use rules::{Extent, RuleMetrics};

#[derive(Debug)]
pub struct Metrics {
    pub(crate) dns: Arc<DnsMetrics>,
    pub(crate) rules: RuleMetrics,
}

impl Metrics {
    /// Of a cluster with that domain.
    pub fn new(domain: &str) -> Self {
        Metrics { dns: Arc::new(DnsMetrics::new(domain)), rules: RuleMetrics::default() }
    }

    /// In Prometheus' text format.
    pub fn page(&self) -> String {
        let mut text = Text::default();
        self.dns.write(&mut text);
        self.rules.write(&mut text);
        text.finish()
    }
}
