//! What the proxies of one node lead to, for whoever waits until nothing comes to a pod that ends. It stays on the node and
//! is no object of the API.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Versions are resource versions of the objects that proxies are told of, so they mean the same on every node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeshRouted {
    /// Addresses of pods that proxies were told to lead requests to.
    pub endpoints: Arc<BTreeSet<IpAddr>>,
    /// Addresses that are not among them any more, and since which version.
    pub left: Arc<BTreeMap<IpAddr, u64>>,
    /// The newest version that all proxies of the node route by. `None`: they were told nothing.
    pub applied: Option<u64>,
}

impl MeshRouted {
    /// Since which version no proxy of the node leads anything to any of these; `None` while one does.
    pub fn left_since(&self, addresses: &[IpAddr]) -> Option<u64> {
        if addresses.iter().any(|address| self.endpoints.contains(address)) {
            return None;
        }
        let since = addresses.iter().filter_map(|address| self.left.get(address)).max();
        let since = since.copied().unwrap_or_default();
        self.applied.is_some_and(|applied| applied >= since).then_some(since)
    }

    /// The newest version in which an address has left.
    pub fn newest_left(&self) -> u64 {
        self.left.values().max().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_left_when_all_proxies_route_without_it() {
        let [a, b]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let routed = |applied: Option<u64>| MeshRouted {
            endpoints: Arc::new([a].into()),
            left: Arc::new([(b, 7)].into()),
            applied,
        };
        assert_eq!(routed(Some(7)).left_since(&[b]), Some(7));
        assert_eq!(routed(Some(6)).left_since(&[b]), None, "not all have applied it");
        assert_eq!(routed(Some(9)).left_since(&[a, b]), None, "one of them gets requests");
        assert_eq!(routed(Some(1)).left_since(&[[10, 0, 0, 3].into()]), Some(0), "nobody knows it");
        assert_eq!((routed(None).left_since(&[b]), routed(None).newest_left()), (None, 7));
    }
}
