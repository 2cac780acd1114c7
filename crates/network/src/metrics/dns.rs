//! Questions, answers, and how long they took. The names are CoreDNS'.

use std::array;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use minik8s_metrics::{Histogram, Text};
use parking_lot::RwLock;

const REQUESTS: &str = "coredns_dns_requests_total";
const RESPONSES: &str = "coredns_dns_responses_total";
const DURATION: &str = "coredns_dns_request_duration_seconds";
const CACHE_REQUESTS: &str = "coredns_cache_requests_total";
const CACHE_HITS: &str = "coredns_cache_hits_total";
const CACHE_MISSES: &str = "coredns_cache_misses_total";
const FORWARDED: &str = "coredns_proxy_request_duration_seconds";

/// What our resolver is called there.
const SERVER: (&str, &str) = ("server", "dns://:53");
const BUCKETS: [f64; 16] = [
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
    4.096, 8.192,
];

/// Types that are counted by their names; all others are one, so that nobody can make up more of them.
const KINDS: [(u16, &str); 11] = [
    (1, "A"),
    (28, "AAAA"),
    (5, "CNAME"),
    (12, "PTR"),
    (33, "SRV"),
    (16, "TXT"),
    (6, "SOA"),
    (2, "NS"),
    (15, "MX"),
    (65, "HTTPS"),
    (255, "ANY"),
];
const OTHER: usize = KINDS.len();
/// As many as fit into an answer's four bits.
const CODES: usize = 16;

/// A question and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// About a name of the cluster.
    pub is_own: bool,
    pub udp: bool,
    /// The type that was asked for.
    pub kind: u16,
    pub code: u8,
    pub took: Duration,
}

#[derive(Debug)]
pub struct DnsMetrics {
    /// With a dot at its end, as CoreDNS shows it.
    domain: String,
    own: ZoneMetrics,
    others: ZoneMetrics,
    hits: AtomicU64,
    denials: AtomicU64,
    misses: AtomicU64,
    /// By the server that was asked and what it answered.
    forwarded: RwLock<BTreeMap<(SocketAddr, u8), Arc<Histogram>>>,
}

#[derive(Debug)]
struct ZoneMetrics {
    udp: [AtomicU64; OTHER + 1],
    tcp: [AtomicU64; OTHER + 1],
    codes: [AtomicU64; CODES],
    took: Histogram,
}

impl ZoneMetrics {
    fn new() -> Self {
        ZoneMetrics {
            udp: array::from_fn(|_| AtomicU64::new(0)),
            tcp: array::from_fn(|_| AtomicU64::new(0)),
            codes: array::from_fn(|_| AtomicU64::new(0)),
            took: Histogram::new(&BUCKETS),
        }
    }
}

impl DnsMetrics {
    pub fn new(domain: &str) -> Self {
        DnsMetrics {
            domain: format!("{}.", domain.trim_end_matches('.')),
            own: ZoneMetrics::new(),
            others: ZoneMetrics::new(),
            hits: AtomicU64::new(0),
            denials: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            forwarded: RwLock::default(),
        }
    }

    pub(crate) fn count(&self, exchange: Exchange) {
        let Exchange { is_own, udp, kind, code, took } = exchange;
        let zone = if is_own { &self.own } else { &self.others };
        let kind = KINDS.iter().position(|(known, _)| *known == kind).unwrap_or(OTHER);
        add(if udp { &zone.udp[kind] } else { &zone.tcp[kind] });
        add(&zone.codes[usize::from(code) % CODES]);
        zone.took.observe(took);
    }

    /// An answer was there already; its code says whether it is one or a denial.
    pub(crate) fn hit(&self, code: u8) {
        add(if code == 0 { &self.hits } else { &self.denials });
    }

    pub(crate) fn miss(&self) {
        add(&self.misses);
    }

    /// Another server answered.
    pub(crate) fn forwarded(&self, to: SocketAddr, code: u8, took: Duration) {
        let known = self.forwarded.read().get(&(to, code)).cloned();
        let of_server = known.unwrap_or_else(|| {
            let new = || Arc::new(Histogram::new(&BUCKETS));
            self.forwarded.write().entry((to, code)).or_insert_with(new).clone()
        });
        of_server.observe(took);
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let zones = [(self.domain.as_str(), &self.own), (".", &self.others)];
        text.metric(REQUESTS, "counter", "Counter of DNS requests made per zone, protocol and type.");
        for (name, zone) in zones {
            for (protocol, counts) in [("udp", &zone.udp), ("tcp", &zone.tcp)] {
                let kinds = KINDS.iter().map(|(_, kind)| *kind).chain(["other"]);
                for (kind, count) in kinds.zip(counts) {
                    let labels =
                        [SERVER, ("zone", name), ("proto", protocol), ("family", "1"), ("type", kind)];
                    sample(text, REQUESTS, &labels, count);
                }
            }
        }
        text.metric(RESPONSES, "counter", "Counter of DNS responses per zone and code.");
        for (name, zone) in zones {
            for (code, count) in zone.codes.iter().enumerate() {
                let code = code_name(code);
                sample(text, RESPONSES, &[SERVER, ("zone", name), ("rcode", &code)], count);
            }
        }
        text.metric(DURATION, "histogram", "Time until a DNS request was answered, per zone.");
        for (name, zone) in zones {
            zone.took.write(text, DURATION, &[SERVER, ("zone", name)]);
        }
        self.write_cache(text);
        text.metric(FORWARDED, "histogram", "Time that other name servers took to answer.");
        for ((to, code), took) in self.forwarded.read().iter() {
            let (to, code) = (to.to_string(), code_name(usize::from(*code)));
            took.write(text, FORWARDED, &[("proxy_name", "forward"), ("to", &to), ("rcode", &code)]);
        }
    }

    fn write_cache(&self, text: &mut Text) {
        let [hits, denials, misses] =
            [&self.hits, &self.denials, &self.misses].map(|count| count.load(Ordering::Relaxed));
        let zones = ("zones", ".");
        text.metric(CACHE_REQUESTS, "counter", "Questions that kept answers were looked through for.");
        text.sample(CACHE_REQUESTS, &[SERVER, zones], (hits + denials + misses) as f64, None);
        text.metric(CACHE_HITS, "counter", "Questions that a kept answer was found for.");
        for (kind, count) in [("success", hits), ("denial", denials)] {
            text.sample(CACHE_HITS, &[SERVER, ("type", kind), zones], count as f64, None);
        }
        text.metric(CACHE_MISSES, "counter", "Questions that no answer was kept for.");
        text.sample(CACHE_MISSES, &[SERVER, zones], misses as f64, None);
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// What never happened is not shown.
fn sample(text: &mut Text, name: &str, labels: &[(&str, &str)], count: &AtomicU64) {
    match count.load(Ordering::Relaxed) {
        0 => {}
        count => text.sample(name, labels, count as f64, None),
    }
}

fn code_name(code: usize) -> String {
    match code {
        0 => "NOERROR".to_owned(),
        1 => "FORMERR".to_owned(),
        2 => "SERVFAIL".to_owned(),
        3 => "NXDOMAIN".to_owned(),
        4 => "NOTIMP".to_owned(),
        5 => "REFUSED".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let metrics = DnsMetrics::new("cluster.local");
        let took = Duration::from_micros(300);
        let exchange = Exchange { is_own: true, udp: true, kind: 1, code: 0, took };
        metrics.count(exchange);
        metrics.count(Exchange { code: 3, ..exchange });
        metrics.count(Exchange { is_own: false, udp: false, kind: 28, ..exchange });
        metrics.count(Exchange { kind: 4711, ..exchange });
        metrics.miss();
        metrics.hit(0);
        metrics.hit(3);
        metrics.forwarded("192.0.2.1:53".parse().unwrap(), 0, took);
        let mut text = Text::default();
        metrics.write(&mut text);
        let page = text.finish();
        for line in [
            "coredns_dns_requests_total{server=\"dns://:53\",zone=\"cluster.local.\",proto=\"udp\",family=\"1\",type=\"A\"} 2",
            "coredns_dns_requests_total{server=\"dns://:53\",zone=\"cluster.local.\",proto=\"udp\",family=\"1\",type=\"other\"} 1",
            "coredns_dns_requests_total{server=\"dns://:53\",zone=\".\",proto=\"tcp\",family=\"1\",type=\"AAAA\"} 1",
            "coredns_dns_responses_total{server=\"dns://:53\",zone=\"cluster.local.\",rcode=\"NXDOMAIN\"} 1",
            "coredns_dns_request_duration_seconds_bucket{server=\"dns://:53\",zone=\"cluster.local.\",le=\"0.00025\"} 0",
            "coredns_dns_request_duration_seconds_bucket{server=\"dns://:53\",zone=\"cluster.local.\",le=\"0.0005\"} 3",
            "coredns_cache_requests_total{server=\"dns://:53\",zones=\".\"} 3",
            "coredns_cache_hits_total{server=\"dns://:53\",type=\"denial\",zones=\".\"} 1",
            "coredns_cache_misses_total{server=\"dns://:53\",zones=\".\"} 1",
            "coredns_proxy_request_duration_seconds_count{proxy_name=\"forward\",to=\"192.0.2.1:53\",rcode=\"NOERROR\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(!page.contains("type=\"MX\""), "{page}");
    }
}
