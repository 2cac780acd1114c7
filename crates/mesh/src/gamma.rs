//! Routes of the Gateway API whose parent is a Service, for proxies: `(ServiceRoute, Services, slices, pods) →
//! MeshRoutes`, one for each port. Who may name what was decided by the Gateway API's own controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::gateway::{GatewayTarget, ServiceRoute, ServiceRouteStatus};
use minik8s_meta::mesh::{MeshAck, MeshGateway, MeshRoute, MeshRouteSpec, MeshTarget};
use minik8s_meta::routing::service_of;
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches, key_of, owner_reference};

use crate::ack_name;
use crate::compile::{addresses, endpoints, mesh_endpoint, port_of};
use crate::controller::{counts, is_ready, proxies, proxy};
use crate::rolling_update::{self, RollingUpdate};
use crate::status;

pub struct GammaController;

pub struct Observed {
    route: Arc<ServiceRoute>,
    service: Option<Arc<Service>>,
    targets: Vec<MeshTarget>,
    /// Those that were made of it.
    known: Vec<Arc<MeshRoute>>,
    /// Of all nodes.
    acks: Vec<Arc<MeshAck>>,
    /// Pods whose proxies run: namespace and name, and the node.
    proxies: Vec<(String, String)>,
}

impl Controller for GammaController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "mesh-gateway-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<ServiceRoute>();
        watches.owned::<MeshRoute, ServiceRoute>();
        watches.on::<Service>(|caches, service| that_name(caches, &key_of(service)));
        watches.on::<EndpointSlice>(|caches, slice| {
            let service = service_of(slice).map(|(namespace, name)| Key::new(namespace, name));
            service.map(|key| that_name(caches, &key)).unwrap_or_default()
        });
        watches.on::<RollingUpdate>(|caches, update| {
            let namespace = update.metadata.namespace.as_deref().unwrap_or_default();
            that_name(caches, &Key::new(namespace, update.spec.service_ref.as_str()))
        });
        watches.on::<MeshAck>(|_, ack| {
            let namespace = ack.metadata.namespace.as_deref().unwrap_or_default();
            let owners = ack.metadata.owner_references.iter().flatten();
            let routes = owners.filter(|owner| owner.kind == "ServiceRoute");
            routes.map(|owner| Key::new(namespace, owner.name.as_str())).collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Pod>(move |old, new| {
            // A proxy that comes or goes counts for all of them.
            let changed = old.and_then(proxy) != new.and_then(proxy);
            let Some(caches) = caches.upgrade().filter(|_| changed) else { return Vec::new() };
            caches.of::<ServiceRoute>().list().iter().map(|route| key_of(&**route)).collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let changed = old.map(is_ready) != new.map(is_ready);
            let Some(caches) = caches.upgrade().filter(|_| changed) else { return Vec::new() };
            caches.of::<ServiceRoute>().list().iter().map(|route| key_of(&**route)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let route = caches.of::<ServiceRoute>().get(key)?;
        let mut known = caches.of::<MeshRoute>().in_namespace(&key.namespace);
        let uid = route.metadata.uid.as_deref().unwrap_or_default();
        known.retain(|one| one.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid));
        let targets = named(&route).into_iter().filter_map(|place| target(caches, &place)).collect();
        let mut acks = caches.of::<MeshAck>().in_namespace(&key.namespace);
        let is_of =
            |ack: &MeshAck| ack.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid);
        acks.retain(|ack| is_of(ack) && counts(caches, ack));
        Some(Observed {
            service: caches.of::<Service>().get(key),
            proxies: proxies(caches),
            targets,
            known,
            acks,
            route,
        })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if seen.route.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let mut wanted = compile(seen);
        let status = applied(seen, &wanted);
        for known in &seen.known {
            let name = known.metadata.name.as_deref().unwrap_or_default();
            match wanted.remove(name) {
                Some(spec) if spec == known.spec => {}
                Some(spec) => plan.act(Action::update(&MeshRoute { spec, ..MeshRoute::clone(known) })),
                None => plan.act(Action::delete(&**known)),
            }
        }
        for (name, spec) in wanted {
            let metadata = ObjectMeta {
                name: Some(name),
                namespace: seen.route.metadata.namespace.clone(),
                owner_references: Some(vec![owner_reference(&*seen.route)]),
                ..ObjectMeta::default()
            };
            plan.act(Action::create(&MeshRoute { metadata, spec, ..MeshRoute::default() }));
        }
        plan.status(&*seen.route, ServiceRoute { status: Some(status), ..ServiceRoute::clone(&seen.route) });
        plan
    }
}

/// Who routes by it. A proxy that has not applied one of its ports has not applied it.
fn applied(seen: &Observed, wanted: &BTreeMap<String, MeshRouteSpec>) -> ServiceRouteStatus {
    let of_port = |(name, spec): (&String, &MeshRouteSpec)| {
        let of = ack_name::of_route(name, &spec.uid);
        let acks = seen.acks.iter().filter_map(|ack| {
            let (route, node) = ack_name::parts(ack)?;
            (route == of).then_some((node, &ack.spec))
        });
        status::proxies(&seen.proxies, acks, &spec.revision)
    };
    let slowest = wanted.iter().map(of_port).max_by_key(|counts| counts.total - counts.applied);
    ServiceRouteStatus {
        observed_generation: seen.route.metadata.generation,
        problem: slowest
            .is_none()
            .then(|| "the Service has no virtual address that requests go to".to_owned()),
        proxies: slowest.unwrap_or_default(),
    }
}

/// Changes with what users wrote, and with nothing that changes by itself.
fn revision(route: &ServiceRoute) -> String {
    let uid = route.metadata.uid.as_deref().unwrap_or_default();
    format!("{uid}.{}", route.metadata.generation.unwrap_or_default())
}

/// By name, which has a dot: that of no VirtualService has one.
fn compile(seen: &Observed) -> BTreeMap<String, MeshRouteSpec> {
    let key = key_of(&*seen.route);
    let spec = &seen.route.spec;
    let mut routes = BTreeMap::new();
    let Some(service) = &seen.service else { return routes };
    for port in &spec.ports {
        let addresses = addresses(service, port.port);
        if addresses.is_empty() {
            continue;
        }
        let gateway = MeshGateway {
            clients: port.clients.clone(),
            rules: spec.rules.clone(),
            targets: seen.targets.clone(),
        };
        let route = MeshRouteSpec {
            uid: seen.route.metadata.uid.clone().unwrap_or_default(),
            revision: revision(&seen.route),
            service: key.to_string(),
            addresses,
            gateway: Some(gateway),
            ..MeshRouteSpec::default()
        };
        routes.insert(format!("{}.{}", key.name, port.port), route);
    }
    routes
}

/// Service and port of whatever its rules lead to.
fn named(route: &ServiceRoute) -> BTreeSet<(Key, i32)> {
    let rules = route.spec.rules.iter();
    let targets = rules.flat_map(|rule| {
        let copies = |filters: &minik8s_meta::gateway::GatewayFilters| -> Vec<GatewayTarget> {
            filters.mirrors.iter().map(|mirror| mirror.target.clone()).collect()
        };
        let own = rule
            .backends
            .iter()
            .flat_map(move |backend| std::iter::once(backend.target.clone()).chain(copies(&backend.filters)));
        own.chain(copies(&rule.filters)).collect::<Vec<_>>()
    });
    let usable = targets.filter(|target| target.problem.is_none());
    usable.map(|target| (Key::new(target.namespace, target.service), target.port)).collect()
}

fn target(caches: &Caches, (key, number): &(Key, i32)) -> Option<MeshTarget> {
    let service = caches.of::<Service>().get(key)?;
    let port = port_of(&service, *number)?;
    let mut slices = caches.of::<EndpointSlice>().in_namespace(&key.namespace);
    slices.retain(|slice| service_of(slice).is_some_and(|(_, name)| name == key.name));
    let pods = caches.of::<Pod>().in_namespace(&key.namespace);
    let update = rolling_update::update_of(caches, &key.namespace, &key.name);
    let drained = update.map(|update| update.draining.into_iter().collect()).unwrap_or_default();
    let found = endpoints(&slices, port.name.as_deref().unwrap_or_default(), &pods, &drained);
    Some(MeshTarget {
        namespace: key.namespace.clone(),
        service: key.name.clone(),
        port: *number,
        endpoints: found.iter().map(|endpoint| mesh_endpoint(endpoint, 1)).collect(),
    })
}

/// Those of the Service itself, and those that lead to it.
fn that_name(caches: &Caches, service: &Key) -> Vec<Key> {
    let all = caches.of::<ServiceRoute>().list();
    let is_named = |route: &&Arc<ServiceRoute>| {
        key_of(&***route) == *service || named(route).iter().any(|(key, _)| key == service)
    };
    all.iter().filter(is_named).map(|route| key_of(&**route)).collect()
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};
    use serde_json::{Value, json};

    use super::*;

    fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn build() -> Simulation {
        let mut world = World::default();
        for (name, ip) in [("echo", "10.96.0.5"), ("echo-v1", "10.96.0.6")] {
            world
                .insert::<Service>(&from(json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
                "spec": {"clusterIP": ip, "ports": [{"port": 80}]}})));
        }
        world.insert::<EndpointSlice>(&from(json!({"addressType": "IPv4", "ports": [{"port": 9080}],
            "metadata": {"name": "v1-1", "namespace": "ns", "labels": {"kubernetes.io/service-name": "echo-v1"}},
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true},
                "targetRef": {"kind": "Pod", "name": "a"}}]})));
        let backend = |service: &str, problem: Value| json!({"weight": 1, "target": {"namespace": "ns", "service": service, "port": 80, "problem": problem}});
        world.insert::<ServiceRoute>(&from(
            json!({"metadata": {"name": "echo", "namespace": "ns", "uid": "r"},
            "spec": {"ports": [{"port": 80, "clients": [{"matches": [{"rule": 0}]}]}],
                "rules": [{"route": "HTTPRoute ns/r",
                    "backends": [backend("echo-v1", json!(null)), backend("nobody", json!("not there"))]}]}}),
        ));
        Simulation::new(world).with(GammaController)
    }

    #[test]
    fn routes_of_a_service_lead_to_endpoints() {
        check_convergence(build, |simulation| {
            let made: MeshRoute = simulation.world.get(&Key::new("ns", "echo.80")).unwrap();
            assert_eq!(
                (made.spec.service.as_str(), made.spec.addresses.join(",")),
                ("ns/echo", "10.96.0.5:80".to_owned())
            );
            let gateway = made.spec.gateway.unwrap();
            let endpoint = json!({"address": "10.0.0.1:9080", "pod": "a", "weight": 1});
            let target =
                json!({"namespace": "ns", "service": "echo-v1", "port": 80, "endpoints": [endpoint]});
            assert_eq!(json!(gateway.targets), json!([target]));
            assert_eq!(gateway.rules[0].backends.len(), 2, "what is not there has its share of errors");
        });
        let mut simulation = build();
        simulation.world.insert::<Pod>(&from(json!({"metadata": {"name": "p", "namespace": "other"},
            "spec": {"nodeName": "n.1", "containers": [],
                "initContainers": [{"name": "minik8s-proxy", "image": minik8s_meta::mesh::SIDECAR_IMAGE}]},
            "status": {"initContainerStatuses": [{"name": "minik8s-proxy", "image": "", "imageID": "",
                "ready": true, "restartCount": 0, "started": true, "state": {"running": {}}}]}})));
        let told = |simulation: &mut Simulation| {
            simulation.settle().unwrap();
            let route: ServiceRoute = simulation.world.get(&Key::new("ns", "echo")).unwrap();
            assert_eq!(route.status.as_ref().unwrap().observed_generation, route.metadata.generation);
            let proxies = route.status.unwrap().proxies;
            (proxies.total, proxies.applied, proxies.waiting_for.len())
        };
        assert_eq!(told(&mut simulation), (1, 0, 1));
        let revision = |simulation: &Simulation| {
            simulation.world.get::<MeshRoute>(&Key::new("ns", "echo.80")).unwrap().spec.revision
        };
        let first = revision(&simulation);
        simulation.world.insert::<MeshAck>(&from(
            json!({"metadata": {"name": "serviceroute-r-80.n.1", "namespace": "ns", "ownerReferences": [{"apiVersion":
                "internal.minik8s.io/v1", "kind": "ServiceRoute", "name": "echo", "uid": "r"}]},
                "spec": {"revision": first}}),
        ));
        assert_eq!(told(&mut simulation), (1, 1, 0));
        simulation
            .world
            .change::<ServiceRoute>(&Key::new("ns", "echo"), |one| one.spec.rules[0].backends.truncate(1));
        assert_eq!(told(&mut simulation), (1, 0, 1), "of another revision");
        assert_ne!(revision(&simulation), first);
        simulation.world.change::<ServiceRoute>(&Key::new("ns", "echo"), |one| one.spec.ports.clear());
        simulation.settle().unwrap();
        assert!(simulation.world.get::<MeshRoute>(&Key::new("ns", "echo.80")).is_none());
    }
}
