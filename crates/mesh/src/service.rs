//! What proxies must know of Services without a VirtualService: who is behind them. `(Service, slices, pods) →
//! MeshService`.
//!
//! A proxy speaks TLS only with pods of which it knows that they have a proxy, too, and who they are. So connections to a
//! Service with such pods are led to one of them by the proxy itself, not by the node's rules. Where that would change
//! what a Service promises (affinity, pods of the same node alone) its addresses are left to the node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::mesh::{MeshPort, MeshService, MeshServiceSpec, MeshUpdate, takes_inbound};
use minik8s_meta::routing::service_of;
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Selector, Watches, key_of, owner_reference};

use crate::compile::{addresses, endpoints, mesh_endpoint, port_of, says_grpc, says_http};
use crate::rolling_update::{self, RollingUpdate};

pub struct MeshServiceController;

pub struct Observed {
    service: Arc<Service>,
    slices: Vec<Arc<EndpointSlice>>,
    pods: Vec<Arc<Pod>>,
    known: Option<Arc<MeshService>>,
    update: Option<MeshUpdate>,
}

impl Controller for MeshServiceController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "mesh-service-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Service>();
        watches.own::<MeshService>();
        watches.on::<RollingUpdate>(rolling_update::services);
        watches.on::<EndpointSlice>(|_, slice| {
            let service = service_of(slice).map(|(namespace, name)| Key::new(namespace, name));
            service.into_iter().collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Pod>(move |old, new| {
            let (Some(caches), Some(pod)) = (caches.upgrade(), new) else { return Vec::new() };
            // Its spec says all that is looked at, and its labels change slices.
            if old.is_some() || !pod.spec.as_ref().is_some_and(takes_inbound) {
                return Vec::new();
            }
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let services = caches.of::<Service>().in_namespace(namespace);
            let selects = |service: &&Arc<Service>| {
                let labels = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                labels.is_some() && Selector::equal(labels).matches_object(&pod.metadata)
            };
            services.iter().filter(selects).map(|service| key_of(&**service)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let service = caches.of::<Service>().get(key)?;
        let mut slices = caches.of::<EndpointSlice>().in_namespace(&key.namespace);
        slices.retain(|slice| service_of(slice).is_some_and(|(_, name)| name == key.name));
        let pods = caches.of::<Pod>().in_namespace(&key.namespace);
        let update = rolling_update::update_of(caches, &key.namespace, &key.name);
        Some(Observed { service, slices, pods, known: caches.of::<MeshService>().get(key), update })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if seen.service.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let spec = compile(&seen.service, &seen.slices, &seen.pods, seen.update.as_ref());
        match &seen.known {
            Some(known) if known.spec == spec => {}
            Some(known) => plan.act(Action::update(&MeshService { spec, ..MeshService::clone(known) })),
            None if spec.ports.is_empty() && spec.update.is_none() => {}
            None => plan.act(Action::create(&MeshService {
                metadata: ObjectMeta {
                    name: seen.service.metadata.name.clone(),
                    namespace: seen.service.metadata.namespace.clone(),
                    owner_references: Some(vec![owner_reference(&*seen.service)]),
                    ..ObjectMeta::default()
                },
                spec,
                ..MeshService::default()
            })),
        }
        plan
    }
}

/// No ports, if none of its pods is of the mesh.
fn compile(
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    pods: &[Arc<Pod>],
    update: Option<&MeshUpdate>,
) -> MeshServiceSpec {
    let drained = update.map(|update| update.draining.iter().cloned().collect()).unwrap_or_default();
    let meta = &service.metadata;
    let name = format!(
        "{}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    let spec = service.spec.as_ref();
    let numbers = spec.and_then(|spec| spec.ports.as_ref()).into_iter().flatten().map(|port| port.port);
    let promises_more = spec.is_some_and(|spec| {
        spec.session_affinity.as_deref() == Some("ClientIP")
            || spec.internal_traffic_policy.as_deref() == Some("Local")
            || spec.traffic_distribution.is_some()
    });
    let ports = numbers.filter_map(|number| {
        let port = port_of(service, number)?;
        let found = endpoints(slices, port.name.as_deref().unwrap_or_default(), pods, &drained);
        let endpoints: Vec<_> = found.iter().map(|endpoint| mesh_endpoint(endpoint, 1)).collect();
        let is_meshed = endpoints.iter().any(|endpoint| endpoint.service_account.is_some());
        let addresses = if promises_more { Vec::new() } else { addresses(service, number) };
        is_meshed.then(|| MeshPort { addresses, http: says_http(port), grpc: says_grpc(port), endpoints })
    });
    MeshServiceSpec { service: name, ports: ports.collect(), update: update.cloned() }
}

#[cfg(test)]
mod tests {
    use minik8s_meta::mesh::{INBOUND_ENV, SIDECAR, SIDECAR_IMAGE};
    use minik8s_runtime::testing::{Simulation, World, check_convergence};
    use serde_json::{Value, json};

    use super::*;

    fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn world(spec: Value, sidecar: Value) -> World {
        let mut world = World::default();
        world.insert::<Service>(&from(
            json!({"metadata": {"name": "web", "namespace": "ns", "uid": "s"}, "spec": spec}),
        ));
        world.insert::<EndpointSlice>(&from(json!({"addressType": "IPv4", "ports": [{"port": 9080}],
            "metadata": {"name": "web-1", "namespace": "ns", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true},
                "targetRef": {"kind": "Pod", "name": "a"}}]})));
        world.insert::<Pod>(&from(json!({"metadata": {"name": "a", "namespace": "ns", "uid": "a"},
            "spec": {"containers": [], "serviceAccountName": "ann", "initContainers": [sidecar]}})));
        world
    }

    fn made(spec: Value, sidecar: Value) -> Option<MeshService> {
        let mut simulation = Simulation::new(world(spec, sidecar)).with(MeshServiceController);
        simulation.settle().unwrap();
        simulation.world.get::<MeshService>(&Key::new("ns", "web"))
    }

    fn proxy() -> Value {
        json!({"name": SIDECAR, "image": SIDECAR_IMAGE, "env": [{"name": INBOUND_ENV, "value": "1"}]})
    }

    #[test]
    fn proxies_learn_who_is_behind_a_service() {
        let spec = json!({"clusterIP": "10.96.0.5", "ports": [{"port": 80, "appProtocol": "http"}]});
        let build = || Simulation::new(world(spec.clone(), proxy())).with(MeshServiceController);
        check_convergence(build, |simulation| {
            let made: MeshService = simulation.world.get(&Key::new("ns", "web")).unwrap();
            let endpoint =
                json!({"address": "10.0.0.1:9080", "pod": "a", "weight": 1, "serviceAccount": "ns/ann"});
            let port = json!({"addresses": ["10.96.0.5:80"], "http": true, "endpoints": [endpoint]});
            assert_eq!(json!(made.spec), json!({"service": "ns/web", "ports": [port]}));
        });
    }

    #[test]
    fn what_is_left_to_the_node() {
        let plain = json!({"clusterIP": "10.96.0.5", "ports": [{"port": 80}]});
        let old = json!({"name": SIDECAR, "image": SIDECAR_IMAGE});
        assert_eq!(made(plain.clone(), old), None, "its proxy takes nothing that comes");
        assert_eq!(made(plain.clone(), json!({"name": "init"})), None, "no proxy");
        let affine =
            json!({"clusterIP": "10.96.0.5", "sessionAffinity": "ClientIP", "ports": [{"port": 80}]});
        for spec in [affine, json!({"clusterIP": "None", "ports": [{"port": 80}]})] {
            let ports = made(spec, proxy()).unwrap().spec.ports;
            assert!(ports[0].addresses.is_empty() && ports[0].endpoints.len() == 1);
        }
        assert!(!made(plain, proxy()).unwrap().spec.ports[0].http, "it does not say so");
    }
}
