//! Which pods the proxies of this node lead requests to, by which version of the objects that say so: pods that end wait
//! for it, here and on other nodes. It decides nothing about requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::mesh::{MeshEndpoint, MeshRoute, MeshRouted, MeshService};
use tokio::sync::watch;

use super::followed::Name;

/// Whether it is a MeshRoute, and its name.
type ObjectName = (bool, Name);

/// Keeps a [`MeshRouted`] up to date.
#[derive(Debug)]
pub struct Routing {
    routed: watch::Sender<MeshRouted>,
    /// Where each object leads.
    objects: BTreeMap<ObjectName, BTreeSet<IpAddr>>,
    /// The newest resource version that proxies were told of.
    told: u64,
    /// Versions of the configuration that not all proxies have applied, and `told` of each.
    pending: VecDeque<(u64, u64)>,
}

impl Routing {
    /// Nothing was told yet.
    pub fn new(routed: watch::Sender<MeshRouted>) -> Self {
        routed.send_replace(MeshRouted::default());
        Routing { routed, objects: BTreeMap::new(), told: 0, pending: VecDeque::new() }
    }

    /// Takes in what proxies are told as this version.
    pub fn tell(
        &mut self,
        services: &BTreeMap<Name, Arc<MeshService>>,
        routes: &BTreeMap<Name, Arc<MeshRoute>>,
        version: u64,
    ) {
        let services = services.iter().map(|(name, service)| {
            let endpoints = service.spec.ports.iter().flat_map(|port| &port.endpoints);
            ((false, name.clone()), (resource_version(&service.metadata), addresses(endpoints)))
        });
        let routes = routes.iter().map(|(name, route)| {
            ((true, name.clone()), (resource_version(&route.metadata), addresses(endpoints_of(route))))
        });
        let now: BTreeMap<ObjectName, (u64, BTreeSet<IpAddr>)> = services.chain(routes).collect();
        self.told = now.values().map(|(version, _)| *version).fold(self.told, u64::max);
        let endpoints: BTreeSet<IpAddr> = now.values().flat_map(|(_, ips)| ips.iter().copied()).collect();
        let mut left: BTreeMap<IpAddr, u64> = (*self.routed.borrow().left).clone();
        for (name, before) in &self.objects {
            // Of an object that is gone nobody knows in which version.
            let version = now.get(name).map_or(self.told, |(version, _)| *version);
            for ip in before.difference(&endpoints) {
                let since = left.entry(*ip).or_default();
                *since = version.max(*since);
            }
        }
        left.retain(|ip, _| !endpoints.contains(ip));
        self.objects = now.into_iter().map(|(name, (_, ips))| (name, ips)).collect();
        self.pending.push_back((version, self.told));
        self.routed.send_modify(|routed| {
            routed.endpoints = Arc::new(endpoints);
            routed.left = Arc::new(left);
        });
    }

    /// The version that all proxies route by that are connected; `None` if there are none, so that nobody is waited for.
    pub fn applied(&mut self, version: Option<u64>) {
        let mut newest = None;
        let is_applied = |(pending, _): &(u64, u64)| version.is_none_or(|version| *pending <= version);
        while self.pending.front().is_some_and(is_applied) {
            newest = self.pending.pop_front().map(|(_, told)| told);
        }
        if newest.is_some() {
            self.routed.send_modify(|routed| routed.applied = newest);
        }
    }
}

fn endpoints_of(route: &MeshRoute) -> impl Iterator<Item = &MeshEndpoint> {
    let spec = &route.spec;
    let rules = spec.rules.iter().flat_map(|rule| &rule.endpoints);
    let mirror = spec.mirror.iter().flat_map(|mirror| &mirror.endpoints);
    let targets = spec.gateway.iter().flat_map(|gateway| &gateway.targets);
    rules.chain(mirror).chain(targets.flat_map(|target| &target.endpoints))
}

fn addresses<'a>(endpoints: impl Iterator<Item = &'a MeshEndpoint>) -> BTreeSet<IpAddr> {
    let parsed = endpoints.filter_map(|endpoint| endpoint.address.parse::<SocketAddr>().ok());
    parsed.map(|address| address.ip()).collect()
}

fn resource_version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_ref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";

    fn service(version: u64, ips: &[&str]) -> BTreeMap<Name, Arc<MeshService>> {
        let endpoint = |ip: &&str| json!({"address": format!("{ip}:80"), "pod": "p", "weight": 1});
        let endpoints: Vec<_> = ips.iter().map(endpoint).collect();
        let service = json!({"metadata": {"name": "web", "namespace": "ns", "resourceVersion": version.to_string()},
            "spec": {"service": "ns/web", "ports": [{"endpoints": endpoints}]}});
        BTreeMap::from([(
            ("ns".to_owned(), "web".to_owned()),
            Arc::new(serde_json::from_value(service).unwrap()),
        )])
    }

    fn route(version: u64, ips: &[&str]) -> BTreeMap<Name, Arc<MeshRoute>> {
        let endpoint = |ip: &&str| json!({"address": format!("{ip}:80"), "pod": "p", "weight": 1});
        let endpoints: Vec<_> = ips.iter().map(endpoint).collect();
        let route = json!({"metadata": {"name": "web", "namespace": "ns", "resourceVersion": version.to_string()},
            "spec": {"uid": "u", "revision": "r", "service": "ns/web", "addresses": [],
                "rules": [{"endpoints": endpoints}]}});
        BTreeMap::from([(
            ("ns".to_owned(), "web".to_owned()),
            Arc::new(serde_json::from_value(route).unwrap()),
        )])
    }

    #[test]
    fn pod_has_left_when_all_objects_and_all_proxies_are_without_it() {
        let (sender, routed) = watch::channel(MeshRouted::default());
        let mut routing = Routing::new(sender);
        let since = |ip: &str| routed.borrow().left_since(&[ip.parse().unwrap()]);
        routing.tell(&service(10, &[A, B]), &route(11, &[A, B]), 1);
        assert_eq!(routed.borrow().applied, None, "no proxy has said so");
        routing.applied(Some(1));
        assert_eq!((routed.borrow().applied, since(A)), (Some(11), None));
        routing.tell(&service(12, &[B]), &route(11, &[A, B]), 2);
        routing.applied(Some(2));
        assert_eq!(since(A), None, "the route leads there");
        routing.tell(&service(12, &[B]), &route(13, &[B]), 3);
        routing.applied(Some(2));
        assert_eq!(since(A), None, "a proxy is behind");
        routing.applied(Some(3));
        assert_eq!((since(A), since(B)), (Some(13), None));
        // The address is another pod's now.
        routing.tell(&service(14, &[A, B]), &route(13, &[B]), 4);
        routing.applied(None);
        assert_eq!((routed.borrow().applied, since(A)), (Some(14), None), "there is no proxy to wait for");
        routing.tell(&BTreeMap::new(), &BTreeMap::new(), 5);
        routing.applied(Some(5));
        assert_eq!((since(A), since(B)), (Some(14), Some(14)));
    }
}
