//! What wakes the controller of VirtualServices and what it looks at. The decisions are in [`crate::compile`] and
//! [`crate::status`].

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::mesh::{MeshAck, MeshRoute, NODE_PROXY, SIDECAR, Subset, VirtualService, is_sidecar_image};
use minik8s_meta::routing::service_of;
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches, owner_reference};

use crate::ack_name;
use crate::compile::{Inputs, Problem, compile};
use crate::rolling_update::{self, RollingUpdate};
use crate::status;

pub struct VirtualServiceController;

/// All that a plan is made of.
pub struct Observed {
    pub inputs: Inputs,
    /// An older object for the same port of the same Service.
    pub older: Option<String>,
    pub route: Option<Arc<MeshRoute>>,
    /// Of all nodes.
    pub acks: Vec<Arc<MeshAck>>,
    /// Pods whose proxies run: namespace and name, and the node.
    pub proxies: Vec<(String, String)>,
}

impl Controller for VirtualServiceController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "virtual-service-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.on::<VirtualService>(|caches, one| {
            // Whoever was hidden by it, or hides it, for the same Service.
            of_service(caches, namespace(&one.metadata), &one.spec.service_ref)
                .into_iter()
                .chain([key(one)])
                .collect()
        });
        watches.on::<Subset>(|caches, subset| {
            let named = |one: &VirtualService| {
                let name = subset.metadata.name.as_deref();
                let mirrored = one.spec.mirror.as_ref().is_some_and(|mirror| name == Some(&mirror.subset));
                mirrored || one.spec.subsets.iter().any(|route| name == Some(&route.name))
            };
            select(caches, namespace(&subset.metadata), named)
        });
        watches.on::<Service>(|caches, service| {
            of_service(
                caches,
                namespace(&service.metadata),
                service.metadata.name.as_deref().unwrap_or_default(),
            )
        });
        watches.on::<EndpointSlice>(|caches, slice| {
            service_of(slice).map(|(namespace, name)| of_service(caches, namespace, name)).unwrap_or_default()
        });
        watches.own::<MeshRoute>();
        watches.on::<RollingUpdate>(|caches, update| {
            of_service(caches, namespace(&update.metadata), &update.spec.service_ref)
        });
        watches.on::<MeshAck>(|_, ack| {
            let name = ack_name::virtual_service(ack);
            name.map(|name| Key::new(namespace(&ack.metadata), name)).into_iter().collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Pod>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            let labels = |pod: Option<&Pod>| pod.and_then(|pod| pod.metadata.labels.clone());
            let mut keys = Vec::new();
            // A proxy that comes or goes counts for all of them.
            if old.and_then(proxy) != new.and_then(proxy) {
                keys.extend(caches.of::<VirtualService>().list().iter().map(|one| key(one)));
            } else if labels(old) != labels(new)
                && let Some(pod) = new.or(old)
            {
                keys = select(&caches, namespace(&pod.metadata), |_| true);
            }
            keys
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let changed = old.map(is_ready) != new.map(is_ready);
            let Some(caches) = caches.upgrade().filter(|_| changed) else { return Vec::new() };
            caches.of::<VirtualService>().list().iter().map(|one| key(one)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let virtual_service = caches.of::<VirtualService>().get(key)?;
        let service = &virtual_service.spec.service_ref;
        let is_of = |slice: &Arc<EndpointSlice>| service_of(slice).is_some_and(|(_, name)| name == service);
        let mut slices = caches.of::<EndpointSlice>().in_namespace(&key.namespace);
        slices.retain(is_of);
        let mut acks = caches.of::<MeshAck>().in_namespace(&key.namespace);
        acks.retain(|ack| {
            ack_name::virtual_service(ack).is_some_and(|name| name == key.name) && counts(caches, ack)
        });
        Some(Observed {
            older: older(caches, &virtual_service),
            route: caches.of::<MeshRoute>().get(key),
            acks,
            proxies: proxies(caches),
            inputs: Inputs {
                subsets: caches.of::<Subset>().in_namespace(&key.namespace),
                service: caches.of::<Service>().get(&Key::new(&*key.namespace, service.as_str())),
                slices,
                pods: caches.of::<Pod>().in_namespace(&key.namespace),
                drained: rolling_update::update_of(caches, &key.namespace, service)
                    .map(|update| update.draining.into_iter().collect())
                    .unwrap_or_default(),
                virtual_service,
            },
        })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan(seen, now)
    }
}

/// The route as it must be, and what is said about it.
pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let virtual_service = &*seen.inputs.virtual_service;
    if virtual_service.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let compiled = match &seen.older {
        Some(older) => Err(Problem {
            reason: "Conflict",
            message: format!("VirtualService {older} is older and has the same port of the same Service"),
        }),
        None => compile(&seen.inputs),
    };
    match (&compiled, &seen.route) {
        (Ok(compiled), Some(route)) if route.spec == compiled.route => {}
        (Ok(compiled), Some(route)) => {
            plan.act(Action::update(&MeshRoute { spec: compiled.route.clone(), ..MeshRoute::clone(route) }));
        }
        (Ok(compiled), None) => plan.act(Action::create(&MeshRoute {
            metadata: ObjectMeta {
                name: virtual_service.metadata.name.clone(),
                namespace: virtual_service.metadata.namespace.clone(),
                owner_references: Some(vec![owner_reference(virtual_service)]),
                ..ObjectMeta::default()
            },
            spec: compiled.route.clone(),
            ..MeshRoute::default()
        })),
        (Err(_), Some(route)) => plan.act(Action::delete(&**route)),
        (Err(_), None) => {}
    }
    status::write(seen, &compiled, now, &mut plan);
    plan
}

fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

fn key(virtual_service: &VirtualService) -> Key {
    let meta = &virtual_service.metadata;
    Key::new(namespace(meta), meta.name.as_deref().unwrap_or_default())
}

fn select(caches: &Caches, namespace: &str, wanted: impl Fn(&VirtualService) -> bool) -> Vec<Key> {
    let all = caches.of::<VirtualService>().in_namespace(namespace);
    all.iter().filter(|one| wanted(one)).map(|one| key(one)).collect()
}

fn of_service(caches: &Caches, namespace: &str, service: &str) -> Vec<Key> {
    select(caches, namespace, |one| one.spec.service_ref == service)
}

/// The oldest for a port has it; of two made in the same second the first by name.
fn older(caches: &Caches, virtual_service: &VirtualService) -> Option<String> {
    let age = |one: &VirtualService| (one.metadata.creation_timestamp.clone(), one.metadata.name.clone());
    let same = |one: &&Arc<VirtualService>| {
        one.spec.service_ref == virtual_service.spec.service_ref
            && one.spec.port == virtual_service.spec.port
            && one.metadata.deletion_timestamp.is_none()
            && age(one) < age(virtual_service)
    };
    let all = caches.of::<VirtualService>().in_namespace(namespace(&virtual_service.metadata));
    all.iter().filter(same).min_by_key(|one| age(one)).and_then(|one| one.metadata.name.clone())
}

/// All that run: namespace and name of their pods, and the node. Of those of a node that is not Ready nobody hears, and
/// they do not count.
pub fn proxies(caches: &Caches) -> Vec<(String, String)> {
    let nodes = caches.of::<Node>();
    let is_away = |node: &str| nodes.get(&Key::new("", node)).is_some_and(|node| !is_ready(&node));
    let pods = caches.of::<Pod>().list();
    let running = pods.iter().filter_map(|pod| proxy(pod));
    let mut proxies: Vec<_> = running.filter(|(_, node)| !is_away(node)).collect();
    proxies.sort();
    proxies
}

/// The same for what a node has said. One that is gone says nothing of itself any more.
pub fn counts(caches: &Caches, ack: &MeshAck) -> bool {
    let node = ack_name::parts(ack).and_then(|(_, name)| caches.of::<Node>().get(&Key::new("", name)));
    match node {
        Some(node) => is_ready(&node),
        None => !ack.spec.waiting.iter().any(|one| one == NODE_PROXY),
    }
}

pub fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Namespace and name, and node, of a pod whose proxy has started. One that starts later has everything from the start.
pub fn proxy(pod: &Pod) -> Option<(String, String)> {
    let spec = pod.spec.as_ref()?;
    let is_proxy = |name: &str, image: Option<&str>| name == SIDECAR && is_sidecar_image(image);
    let mut init = spec.init_containers.iter().flatten();
    init.find(|container| is_proxy(&container.name, container.image.as_deref()))?;
    let mut statuses = pod.status.as_ref()?.init_container_statuses.iter().flatten();
    let status = statuses.find(|status| status.name == SIDECAR)?;
    let runs = status.started == Some(true) && status.state.as_ref()?.running.is_some();
    let meta = &pod.metadata;
    let name = format!("{}/{}", namespace(meta), meta.name.as_deref().unwrap_or_default());
    (runs && meta.deletion_timestamp.is_none()).then(|| (name, spec.node_name.clone().unwrap_or_default()))
}
