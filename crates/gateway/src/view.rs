//! All that decisions about Gateways and routes are made of, as it was at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use minik8s_meta::LabelSelector;
use minik8s_meta::gateway::ServiceRoute;
use minik8s_runtime::{Caches, Key, key_of};

use crate::attach::{Parent, parent};
use crate::clients;
use crate::kinds::{
    BackendTlsPolicy, CONTROLLER, Gateway, GatewayClass, GrpcRoute, HttpRoute, Listener, ListenerSet,
    NamespaceSelection, ObjectReference, ReferenceGrant, TcpRoute, TlsRoute, UdpRoute,
};
use crate::route::{Route, RouteObject};

#[derive(Debug, Clone, Default)]
pub struct View {
    pub classes: Vec<Arc<GatewayClass>>,
    pub gateways: Vec<Arc<Gateway>>,
    pub sets: Vec<Arc<ListenerSet>>,
    pub grants: Vec<Arc<ReferenceGrant>>,
    pub policies: Vec<Arc<BackendTlsPolicy>>,
    pub http: Vec<Arc<HttpRoute>>,
    pub grpc: Vec<Arc<GrpcRoute>>,
    pub tls: Vec<Arc<TlsRoute>>,
    pub tcp: Vec<Arc<TcpRoute>>,
    pub udp: Vec<Arc<UdpRoute>>,
    pub namespaces: BTreeMap<String, Arc<Namespace>>,
    /// Those that routes name.
    pub services: BTreeMap<Key, Arc<Service>>,
    /// Those that listeners name.
    pub secrets: BTreeMap<Key, Arc<Secret>>,
    /// Those that policies and Gateways name.
    pub config_maps: BTreeMap<Key, Arc<ConfigMap>>,
    /// What the mesh was told of Services, where somebody wants to know.
    pub service_routes: BTreeMap<Key, Arc<ServiceRoute>>,
}

impl View {
    pub fn of(caches: &Caches) -> Self {
        let mut view = View {
            classes: caches.of::<GatewayClass>().list(),
            gateways: caches.of::<Gateway>().list(),
            sets: caches.of::<ListenerSet>().list(),
            grants: caches.of::<ReferenceGrant>().list(),
            policies: caches.of::<BackendTlsPolicy>().list(),
            http: caches.of::<HttpRoute>().list(),
            grpc: caches.of::<GrpcRoute>().list(),
            tls: caches.of::<TlsRoute>().list(),
            tcp: caches.of::<TcpRoute>().list(),
            udp: caches.of::<UdpRoute>().list(),
            namespaces: caches
                .of::<Namespace>()
                .list()
                .into_iter()
                .map(|one| (key_of(&*one).name, one))
                .collect(),
            ..View::default()
        };
        let routes = view.routes();
        let parents = routes.iter().flat_map(Route::services);
        let services: BTreeSet<Key> = routes.iter().flat_map(Route::backends).chain(parents).collect();
        drop(routes);
        view.services = found(services, |key| caches.of::<Service>().get(key));
        let secrets: BTreeSet<Key> = view.certificate_names().collect();
        view.secrets = found(secrets, |key| caches.of::<Secret>().get(key));
        let config_maps: BTreeSet<Key> = view.authority_names().collect();
        view.config_maps = found(config_maps, |key| caches.of::<ConfigMap>().get(key));
        view
    }

    /// All that are not going away, the oldest first, in the order in which the Gateway API settles conflicts.
    pub fn routes(&self) -> Vec<Route<'_>> {
        let http = self.http.iter().map(|one| one.route());
        let grpc = self.grpc.iter().map(|one| one.route());
        let l4 = self.tls.iter().map(|one| one.route());
        let l4 =
            l4.chain(self.tcp.iter().map(|one| one.route())).chain(self.udp.iter().map(|one| one.route()));
        let mut all: Vec<Route<'_>> =
            http.chain(grpc).chain(l4).filter(|route| route.meta.deletion_timestamp.is_none()).collect();
        all.sort_by_key(|route| (route.meta.creation_timestamp.clone(), route.key(), route.kind));
        all
    }

    /// The sets of a Gateway, the oldest first.
    pub fn sets_of(&self, gateway: &Gateway) -> Vec<&ListenerSet> {
        let key = key_of(gateway);
        let is_of =
            |set: &&Arc<ListenerSet>| parent_of(set) == key && set.metadata.deletion_timestamp.is_none();
        let mut sets: Vec<&ListenerSet> = self.sets.iter().filter(is_of).map(AsRef::as_ref).collect();
        sets.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), key_of(*set)));
        sets
    }

    /// Whether Gateways of this class are ours.
    pub fn serves(&self, class: &str) -> bool {
        let named = self.classes.iter().find(|one| one.metadata.name.as_deref() == Some(class));
        named.is_some_and(|class| class.spec.controller_name == CONTROLLER)
    }

    pub fn gateway(&self, key: &Key) -> Option<&Gateway> {
        let found = self.gateways.iter().find(|gateway| key_of(&***gateway) == *key);
        found.map(AsRef::as_ref).filter(|gateway| gateway.metadata.deletion_timestamp.is_none())
    }

    /// Whether something in `namespace` is let in by a selection that an object in `home` makes.
    pub fn selects(
        &self,
        selection: Option<&NamespaceSelection>,
        default: &str,
        home: &str,
        namespace: &str,
    ) -> bool {
        let from = selection.and_then(|selection| selection.from.as_deref()).unwrap_or(default);
        match from {
            "All" => true,
            "Same" => home == namespace,
            "Selector" => {
                let selector = selection.and_then(|selection| selection.selector.as_ref());
                let labels = self.namespaces.get(namespace).map(|one| one.metadata.labels.as_ref());
                let selector = selector.and_then(|selector| LabelSelector::try_from(selector).ok());
                labels.zip(selector).is_some_and(|(labels, selector)| selector.matches_labels(labels))
            }
            _ => false,
        }
    }

    /// Namespace and name of every Secret that a listener names.
    pub fn certificate_names(&self) -> impl Iterator<Item = Key> + '_ {
        let of_gateways = self.gateways.iter().flat_map(|gateway| {
            let namespace = gateway.metadata.namespace.as_deref().unwrap_or_default();
            let backend = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
            let own = backend.and_then(|backend| backend.client_certificate_ref.as_ref());
            let own = own.map(|reference| referred(reference, namespace));
            gateway
                .spec
                .listeners
                .iter()
                .flat_map(move |listener| certificates(listener, namespace))
                .chain(own)
        });
        let of_sets = self.sets.iter().flat_map(|set| {
            let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
            set.spec.listeners.iter().flat_map(move |listener| certificates(listener, namespace))
        });
        of_gateways.chain(of_sets)
    }

    /// Namespace and name of every ConfigMap with authorities.
    pub fn authority_names(&self) -> impl Iterator<Item = Key> + '_ {
        let of_policies = self.policies.iter().flat_map(|policy| {
            let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
            let references = policy.spec.validation.ca_certificate_refs.iter();
            references.map(move |reference| Key::new(namespace, reference.name.as_str()))
        });
        let of_gateways = self.gateways.iter().flat_map(|gateway| {
            let namespace = gateway.metadata.namespace.as_deref().unwrap_or_default();
            clients::references(gateway).map(move |reference| referred(reference, namespace))
        });
        of_policies.chain(of_gateways)
    }
}

/// The Gateway that a set wants to be part of.
pub fn parent_of(set: &ListenerSet) -> Key {
    let parent = &set.spec.parent_ref;
    let own = set.metadata.namespace.as_deref().unwrap_or_default();
    Key::new(parent.namespace.as_deref().unwrap_or(own), parent.name.as_str())
}

/// Namespace and name of what somebody in `namespace` refers to.
pub fn referred(reference: &ObjectReference, namespace: &str) -> Key {
    Key::new(reference.namespace.as_deref().unwrap_or(namespace), reference.name.as_str())
}

fn certificates<'a>(listener: &'a Listener, namespace: &'a str) -> impl Iterator<Item = Key> + 'a {
    let references = listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
    references.map(move |reference| referred(reference, namespace))
}

fn found<K>(names: BTreeSet<Key>, get: impl Fn(&Key) -> Option<Arc<K>>) -> BTreeMap<Key, Arc<K>> {
    names.into_iter().filter_map(|key| get(&key).map(|object| (key, object))).collect()
}

impl View {
    /// Those that name Secrets and ConfigMaps, and nothing else.
    pub fn listeners_in(caches: &Caches) -> Self {
        View {
            gateways: caches.of::<Gateway>().list(),
            sets: caches.of::<ListenerSet>().list(),
            policies: caches.of::<BackendTlsPolicy>().list(),
            ..View::default()
        }
    }

    /// Whether there is such a route.
    pub fn routes_in(caches: &Caches, wanted: impl Fn(&Route<'_>) -> bool) -> bool {
        caches.of::<HttpRoute>().list().iter().any(|one| wanted(&one.route()))
            || caches.of::<GrpcRoute>().list().iter().any(|one| wanted(&one.route()))
            || caches.of::<TlsRoute>().list().iter().any(|one| wanted(&one.route()))
            || caches.of::<TcpRoute>().list().iter().any(|one| wanted(&one.route()))
            || caches.of::<UdpRoute>().list().iter().any(|one| wanted(&one.route()))
    }

    /// The Gateways that a route wants to be part of, by itself or by sets.
    pub fn gateways_of(caches: &Caches, route: &Route<'_>) -> Vec<Key> {
        let parents = route.parents.iter().map(|reference| parent(reference, route.namespace()));
        let of = |parent: Parent| match parent {
            Parent::Gateway(key) => Some(key),
            Parent::ListenerSet(key) => caches.of::<ListenerSet>().get(&key).map(|set| parent_of(&set)),
            Parent::Service(_) | Parent::Other => None,
        };
        parents.filter_map(of).collect()
    }
}
