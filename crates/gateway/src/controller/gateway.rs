//! What wakes the controller of Gateways, and what it writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::gateway::{GatewayAck, GatewayConfig};
use minik8s_meta::routing::ALLOWED_HOSTS;
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches, key_of};

use super::infrastructure::{self, RouterPorts};
use super::status;
use crate::compile::compile;
use crate::kinds::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute,
};
use crate::route::RouteObject;
use crate::view::{View, parent_of};

pub struct GatewayController;

pub struct Observed {
    pub gateway: Arc<Gateway>,
    pub view: View,
    pub config: Option<Arc<GatewayConfig>>,
    pub service: Option<Arc<Service>>,
    pub slice: Option<Arc<EndpointSlice>>,
    /// Routers' ports that other Gateways have.
    pub taken: BTreeSet<i32>,
    /// What the routers of nodes say of it.
    pub acks: Vec<Arc<GatewayAck>>,
    /// Names and addresses of ready nodes.
    pub nodes: Vec<(String, String)>,
}

impl Controller for GatewayController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "gateway-controller"
    }

    /// One after the other, since each looks which ports the others have.
    fn workers(&self) -> usize {
        1
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Gateway>();
        watches.owned::<GatewayConfig, Gateway>();
        watches.owned::<Service, Gateway>();
        watches.owned::<EndpointSlice, Gateway>();
        watches.on::<GatewayAck>(|_, ack| {
            let namespace = ack.metadata.namespace.as_deref().unwrap_or_default();
            vec![Key::new(namespace, ack.spec.gateway.as_str())]
        });
        watches.on::<GatewayClass>(|caches, _| everyone(caches));
        watches.on::<ReferenceGrant>(|caches, _| everyone(caches));
        watches.on::<BackendTlsPolicy>(|caches, _| everyone(caches));
        watches.on::<ListenerSet>(|_, set| vec![parent_of(set)]);
        routes_of::<HttpRoute>(watches);
        routes_of::<GrpcRoute>(watches);
        routes_of::<TlsRoute>(watches);
        routes_of::<TcpRoute>(watches);
        routes_of::<UdpRoute>(watches);
        watches.on::<Service>(|caches, service| {
            let key = key_of(service);
            let is_named = View::routes_in(caches, |route| route.backends().any(|backend| backend == key));
            if is_named { everyone(caches) } else { Vec::new() }
        });
        watches.on::<Secret>(|caches, secret| {
            let (key, view) = (key_of(secret), View::listeners_in(caches));
            if view.certificate_names().any(|name| name == key) { everyone(caches) } else { Vec::new() }
        });
        watches.on::<ConfigMap>(|caches, map| {
            let (key, view) = (key_of(map), View::listeners_in(caches));
            if view.authority_names().any(|name| name == key) { everyone(caches) } else { Vec::new() }
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Namespace>(move |old, new| {
            let seen = |one: Option<&Namespace>| {
                let meta = &one?.metadata;
                let hosts = meta.annotations.as_ref().and_then(|all| all.get(ALLOWED_HOSTS));
                Some((meta.labels.clone(), hosts.cloned()))
            };
            let Some(caches) = caches.upgrade().filter(|_| seen(old) != seen(new)) else { return Vec::new() };
            everyone(&caches)
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let address = |node: Option<&Node>| node.and_then(infrastructure::address);
            // Nodes report every few seconds; hardly ever does it matter here.
            let Some(caches) = caches.upgrade().filter(|_| address(old) != address(new)) else {
                return Vec::new();
            };
            everyone(&caches)
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let gateway = caches.of::<Gateway>().get(key)?;
        let name = infrastructure::service_key(&gateway);
        let others = caches.of::<GatewayConfig>().list();
        let others = others.iter().filter(|config| key_of(&***config) != *key);
        let mut nodes: Vec<(String, String)> =
            caches.of::<Node>().list().iter().filter_map(|node| infrastructure::address(node)).collect();
        nodes.sort();
        let mut acks = caches.of::<GatewayAck>().in_namespace(&key.namespace);
        acks.retain(|ack| ack.spec.gateway == key.name);
        Some(Observed {
            acks,
            config: caches.of::<GatewayConfig>().get(key),
            service: caches.of::<Service>().get(&name),
            slice: caches.of::<EndpointSlice>().get(&name),
            taken: others.flat_map(|config| config.spec.ports.iter().map(|port| port.router_port)).collect(),
            view: View::of(caches),
            nodes,
            gateway,
        })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan(seen, None, now)
    }

    /// An address that cannot be had, most likely.
    fn plan_failure(&self, seen: &Observed, error: &str, now: Timestamp) -> Plan {
        let mut told = plan(seen, Some(error), now);
        told.actions.retain(|action| matches!(action, Action::Update { subresource: Some("status"), .. }));
        told
    }
}

/// Caches that only `observe` looks at, for the controllers of routes, too.
pub fn needs(watches: &Watches<Key>) {
    watches.needs::<BackendTlsPolicy>();
    watches.needs::<HttpRoute>();
    watches.needs::<GrpcRoute>();
    watches.needs::<TlsRoute>();
    watches.needs::<TcpRoute>();
    watches.needs::<UdpRoute>();
    watches.needs::<Secret>();
    watches.needs::<ConfigMap>();
}

fn plan(seen: &Observed, failure: Option<&str>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let gateway = &*seen.gateway;
    if gateway.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    if !seen.view.serves(&gateway.spec.gateway_class_name) {
        // It was ours: what was made for it goes, and its status is another's.
        plan.actions.extend(seen.config.iter().map(|config| Action::delete(&**config)));
        let owned = seen.service.iter().filter(|service| infrastructure::is_of(&service.metadata, gateway));
        plan.actions.extend(owned.map(|service| Action::delete(&**service)));
        return plan;
    }
    let mut ports = RouterPorts::new(gateway, seen.config.as_deref(), &seen.taken);
    let mut compiled = compile(gateway, &seen.view, |port, udp| ports.of(port, udp));
    if status::accepted(gateway, &compiled).is_err() {
        // Nobody is served by halves.
        compiled.spec.ports.clear();
        compiled.spec.rules.clear();
    }
    infrastructure::plan(seen, &compiled.spec, &mut plan);
    status::write(seen, &compiled, failure, now, &mut plan);
    plan
}

fn routes_of<R: RouteObject>(watches: &Watches<Key>) {
    watches.on::<R>(|caches, object| {
        let route = object.route();
        View::gateways_of(caches, &route)
    });
}

fn everyone(caches: &Caches) -> Vec<Key> {
    caches.of::<Gateway>().list().iter().map(|gateway| key_of(&**gateway)).collect()
}
