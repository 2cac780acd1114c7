//! RollingUpdates under way, as the proxies of this node follow them: who gets requests by all of them, who by none, what
//! is in flight, and how requests went. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minik8s_meta::mesh::{MeshProgressSpec, MeshRoute, MeshService, MeshTarget, MeshUpdate, RequestTotals};

use super::acks::Reached;
use super::followed::Name;

/// By the Service: namespace and name.
#[derive(Debug, Default)]
pub struct Updates(BTreeMap<Name, Tracked>);

#[derive(Debug, Default)]
struct Tracked {
    update: MeshUpdate,
    /// Whether a pod gets requests, and the first version of the configuration that says so.
    pods: BTreeMap<String, (bool, u64)>,
    before: RequestTotals,
    since: RequestTotals,
    /// What the proxy of each pod had counted.
    counted: BTreeMap<String, RequestTotals>,
}

/// What is known of a proxy of this node.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProxyState {
    /// The version that it routes by.
    pub applied: u64,
    /// Connections to its pod, where it was asked.
    pub open: Option<u64>,
}

impl ProxyState {
    /// One that nobody hears of may route by anything.
    pub fn of(reached: Reached, open: Option<u64>) -> Self {
        match reached {
            Reached::Version(applied) => ProxyState { applied, open },
            Reached::Unknown(_) => ProxyState::default(),
        }
    }
}

/// What proxies have counted: by the pod, requests to one Service.
pub type Counted = BTreeMap<String, RequestTotals>;

impl Updates {
    /// Takes in what proxies are told as this version.
    pub fn take(
        &mut self,
        services: &BTreeMap<Name, Arc<MeshService>>,
        routes: &BTreeMap<Name, Arc<MeshRoute>>,
        version: u64,
        counted: impl Fn(&str) -> Counted,
    ) {
        let mut known = std::mem::take(&mut self.0);
        for (name, service) in services {
            let Some(update) = &service.spec.update else { continue };
            let former = known.remove(name).filter(|former| former.update.uid == update.uid);
            let mut tracked = former.unwrap_or_else(|| Tracked::begin(counted(&service.spec.service)));
            tracked.update = update.clone();
            tracked.note(&routed(service, routes), version);
            self.0.insert(name.clone(), tracked);
        }
    }

    /// Whether the proxy of a pod is to say what is in flight.
    pub fn asks(&self, pod: &str) -> bool {
        let Some((namespace, name)) = pod.split_once('/') else { return false };
        let is_asked = |(of, tracked): (&Name, &Tracked)| {
            of.0 == namespace
                && tracked.update.in_flight
                && tracked.update.draining.iter().any(|one| one == name)
        };
        self.0.iter().any(is_asked)
    }

    /// By namespace and name of the RollingUpdate. Proxies are by their pods: namespace and name.
    pub fn progress(
        &mut self,
        proxies: &BTreeMap<String, ProxyState>,
        counted: impl Fn(&str) -> Counted,
    ) -> BTreeMap<Name, MeshProgressSpec> {
        let mut all = BTreeMap::new();
        if proxies.is_empty() {
            return all;
        }
        let applied = proxies.values().map(|proxy| proxy.applied).min().unwrap_or_default();
        for ((namespace, service), tracked) in &mut self.0 {
            tracked.count(counted(&format!("{namespace}/{service}")));
            let name = (namespace.clone(), tracked.update.name.clone());
            let is_idle = |pod: &&String| {
                let proxy = proxies.get(&format!("{namespace}/{pod}"));
                tracked.update.in_flight && proxy.is_some_and(|proxy| proxy.open == Some(0))
            };
            let pods = |wanted: &dyn Fn(bool, u64) -> bool| -> Vec<String> {
                let fitting = tracked.pods.iter().filter(|(_, (routed, since))| wanted(*routed, *since));
                fitting.map(|(pod, _)| pod.clone()).collect()
            };
            let progress = MeshProgressSpec {
                uid: tracked.update.uid.clone(),
                routed: pods(&|routed, since| routed && since <= applied),
                changing: pods(&|_, since| since > applied),
                idle: tracked.update.draining.iter().filter(is_idle).cloned().collect(),
                before: tracked.before,
                since: tracked.since,
            };
            all.insert(name, progress);
        }
        all
    }
}

impl Tracked {
    fn begin(counted: Counted) -> Self {
        let before = counted.values().fold(RequestTotals::default(), |sum, one| RequestTotals {
            total: sum.total + one.total,
            failed: sum.failed + one.failed,
        });
        Tracked { before, counted, ..Tracked::default() }
    }

    fn note(&mut self, routed: &BTreeSet<&str>, version: u64) {
        for (pod, state) in &mut self.pods {
            let is_routed = routed.contains(pod.as_str());
            if state.0 != is_routed {
                *state = (is_routed, version);
            }
        }
        for pod in routed {
            self.pods.entry((*pod).to_owned()).or_insert((true, version));
        }
    }

    /// Proxies count from their start on; one that was started anew has counted less than before.
    fn count(&mut self, counted: Counted) {
        for (pod, now) in &counted {
            let then = self.counted.get(pod).copied().unwrap_or_default();
            let then = if then.total > now.total { RequestTotals::default() } else { then };
            self.since.total += now.total - then.total;
            self.since.failed += now.failed.saturating_sub(then.failed);
        }
        self.counted = counted;
    }
}

/// Pods that get requests of the Service.
fn routed<'a>(service: &'a MeshService, routes: &'a BTreeMap<Name, Arc<MeshRoute>>) -> BTreeSet<&'a str> {
    let plain = service.spec.ports.iter().flat_map(|port| &port.endpoints);
    let of_service = routes.values().filter(|route| route.spec.service == service.spec.service);
    let ruled = of_service.flat_map(|route| &route.spec.rules).flat_map(|rule| &rule.endpoints);
    let targets =
        routes.values().filter_map(|route| route.spec.gateway.as_ref()).flat_map(|one| &one.targets);
    let is_it =
        |target: &&MeshTarget| format!("{}/{}", target.namespace, target.service) == service.spec.service;
    let led = targets.filter(is_it).flat_map(|target| &target.endpoints);
    plain.chain(ruled).chain(led).filter(|one| one.weight > 0).map(|one| one.pod.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn services(pods: &[&str], draining: &[&str], in_flight: bool) -> BTreeMap<Name, Arc<MeshService>> {
        let endpoint = |pod: &&str| json!({"address": "10.0.0.1:80", "pod": pod, "weight": 1});
        let endpoints: Vec<_> = pods.iter().map(endpoint).collect();
        let service = json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": {"service": "ns/web",
            "ports": [{"addresses": ["10.96.0.1:80"], "http": true, "endpoints": endpoints}],
            "update": {"name": "roll", "uid": "u", "draining": draining, "inFlight": in_flight}}});
        let name = ("ns".to_owned(), "web".to_owned());
        BTreeMap::from([(name, Arc::new(serde_json::from_value(service).unwrap()))])
    }

    fn proxies(states: &[(&str, u64, Option<u64>)]) -> BTreeMap<String, ProxyState> {
        let state = |(pod, applied, open): &(&str, u64, Option<u64>)| {
            ((*pod).to_owned(), ProxyState { applied: *applied, open: *open })
        };
        states.iter().map(state).collect()
    }

    fn counted(total: u64, failed: u64) -> impl Fn(&str) -> Counted {
        move |service| {
            assert_eq!(service, "ns/web");
            BTreeMap::from([("ns/client".to_owned(), RequestTotals { total, failed })])
        }
    }

    #[test]
    fn pod_is_out_when_every_proxy_follows() {
        let mut updates = Updates::default();
        let told = |updates: &mut Updates, states: &[(&str, u64, Option<u64>)]| {
            let mut all = updates.progress(&proxies(states), counted(0, 0));
            let one = all.remove(&("ns".to_owned(), "roll".to_owned())).unwrap();
            (one.routed.join(","), one.changing.join(","), one.idle.join(","))
        };
        let text = |routed: &str, changing: &str, idle: &str| {
            (routed.to_owned(), changing.to_owned(), idle.to_owned())
        };
        let none = BTreeMap::new();
        updates.take(&services(&["a", "b"], &[], false), &none, 4, counted(0, 0));
        assert_eq!(told(&mut updates, &[("ns/a", 3, None)]), text("", "a,b", ""));
        assert_eq!(told(&mut updates, &[("ns/a", 4, None)]), text("a,b", "", ""));
        updates.take(&services(&["b"], &["a"], false), &none, 5, counted(0, 0));
        assert_eq!(told(&mut updates, &[("ns/a", 4, None), ("ns/c", 5, None)]), text("b", "a", ""));
        assert_eq!(told(&mut updates, &[("ns/a", 5, Some(0)), ("ns/c", 5, None)]), text("b", "", ""));
        assert!(!updates.asks("ns/a"), "not before all nodes follow");
        updates.take(&services(&["b"], &["a"], true), &none, 6, counted(0, 0));
        assert!(updates.asks("ns/a") && !updates.asks("ns/b") && !updates.asks("other/a"));
        assert_eq!(told(&mut updates, &[("ns/a", 6, Some(2))]), text("b", "", ""));
        assert_eq!(told(&mut updates, &[("ns/a", 6, Some(0))]), text("b", "", "a"));
        assert!(updates.progress(&BTreeMap::new(), counted(0, 0)).is_empty(), "no proxies, nothing to say");
        updates.take(&BTreeMap::new(), &none, 7, counted(0, 0));
        assert!(updates.0.is_empty());
    }

    /// After the agent's start the first proxy that comes back does not speak for the others.
    #[test]
    fn pod_is_not_out_while_a_proxy_is_not_heard_of() {
        let mut updates = Updates::default();
        updates.take(&services(&["b"], &[], false), &BTreeMap::new(), 1, counted(0, 0));
        let mut changing = |other: Reached| {
            let states = [("ns/c", Reached::Version(1)), ("ns/d", other)];
            let states = states.map(|(pod, reached)| (pod.to_owned(), ProxyState::of(reached, None)));
            let all = updates.progress(&BTreeMap::from(states), counted(0, 0));
            all.values().next().unwrap().changing.join(",")
        };
        assert_eq!(changing(Reached::Unknown(std::time::Instant::now())), "b");
        assert_eq!(changing(Reached::Version(1)), "");
    }

    #[test]
    fn requests_are_counted_from_the_beginning_on() {
        let mut updates = Updates::default();
        updates.take(&services(&["a"], &[], false), &BTreeMap::new(), 1, counted(100, 10));
        let mut totals = |total, failed| {
            let all = updates.progress(&proxies(&[("ns/client", 1, None)]), counted(total, failed));
            let one = all.values().next().unwrap();
            (one.before.total, one.before.failed, one.since.total, one.since.failed)
        };
        assert_eq!(totals(100, 10), (100, 10, 0, 0));
        assert_eq!(totals(150, 12), (100, 10, 50, 2));
        assert_eq!(totals(20, 1), (100, 10, 70, 3), "a proxy that was started anew");
    }
}
