//! ServiceCIDRs: ranges that addresses of Services come from, beside those of `--service-cidr`.
//!
//! The API server takes addresses from every one that is not being deleted. One that goes is held by a finalizer until no
//! address is left that it alone covers; its condition says so.

mod plan;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

pub struct ServiceRanges;

pub struct Observed {
    range: Arc<ServiceCIDR>,
    others: Vec<Arc<ServiceCIDR>>,
    /// Those that are taken; looked at only for one that goes.
    addresses: Vec<IpAddr>,
}

impl Controller for ServiceRanges {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "service-cidr-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<ServiceCIDR>(move |_, new| {
            // Another may cover what holds one that goes.
            let going = caches.upgrade().map(|caches| going(&caches)).unwrap_or_default();
            new.map(key_of).into_iter().chain(going).collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<IPAddress>(move |_, new| match (new, caches.upgrade()) {
            (None, Some(caches)) => going(&caches),
            _ => Vec::new(),
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let cache = caches.of::<ServiceCIDR>();
        let range = cache.get(key)?;
        let mut others = cache.list();
        others.retain(|other| other.metadata.name != range.metadata.name && !plan::is_going(other));
        let taken = if plan::is_going(&range) { caches.of::<IPAddress>().list() } else { Vec::new() };
        let addresses = taken.iter().filter_map(|taken| taken.metadata.name.as_deref()?.parse().ok());
        Some(Observed { addresses: addresses.collect(), range, others })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn going(caches: &Caches) -> Vec<Key> {
    let ranges = caches.of::<ServiceCIDR>().list();
    ranges.iter().filter(|range| plan::is_going(range)).map(|range| key_of(&**range)).collect()
}
