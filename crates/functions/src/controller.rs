//! What wakes the function controller and what it looks at. The decisions are in [`crate::plan`].

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::function::{
    BUILD_LABEL, BUILD_SETTINGS, FUNCTION_LABEL, Function, FunctionDemand, FunctionEndpoints,
};
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, is_controlled_by};

use crate::{build, plan, revision, status};

#[derive(Default)]
pub struct FunctionController {
    /// Whether there is a registry for code to be in.
    pub in_registry: bool,
}

/// The ConfigMap of the cluster's settings, and in it the domain of the cluster's names.
const SETTINGS: (&str, &str, &str) = ("kube-system", "minik8s-cluster", "dns.domain");
const USUAL_DOMAIN: &str = "cluster.local";

/// All that a plan is made of.
pub struct Observed {
    pub function: Arc<Function>,
    /// Whether its code is to be in the registry.
    pub in_registry: bool,
    /// Its instances.
    pub pods: Vec<Arc<Pod>>,
    /// Of its revisions.
    pub maps: Vec<Arc<ConfigMap>>,
    /// Pods that fetch dependencies: its own, and others' that fetch what its newest revision needs.
    pub builds: Vec<Arc<Pod>>,
    /// Of revisions in the namespace, also of other functions, that need what its newest one needs.
    pub maps_alike: Vec<Arc<ConfigMap>>,
    /// For pods that fetch dependencies.
    pub build_settings: BTreeMap<String, String>,
    pub endpoints: Option<Arc<FunctionEndpoints>>,
    /// Of all nodes.
    pub demands: Vec<Arc<FunctionDemand>>,
    pub url: String,
}

impl Observed {
    /// Of a revision.
    pub fn map_of(&self, hash: &str) -> Option<&ConfigMap> {
        self.maps.iter().find(|map| revision::hash_of(&map.metadata) == hash).map(|map| &**map)
    }

    pub fn owns(&self, pod: &Pod) -> bool {
        is_controlled_by(&pod.metadata, self.function.metadata.uid.as_deref().unwrap_or_default())
    }
}

impl Controller for FunctionController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "function-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Function>();
        watches.owned::<Pod, Function>();
        watches.owned::<ConfigMap, Function>();
        watches
            .on::<Pod>(|caches, pod| needing(caches, pod.metadata.namespace.as_deref(), build::key_of(pod)));
        watches.on::<ConfigMap>(|caches, map| {
            needing(caches, map.metadata.namespace.as_deref(), label(map, BUILD_LABEL))
        });
        watches.own::<FunctionEndpoints>();
        watches.on::<FunctionDemand>(|_, demand| {
            let namespace = demand.metadata.namespace.as_deref().unwrap_or_default();
            let function = function_of(demand);
            if function.is_empty() { Vec::new() } else { vec![Key::new(namespace, function)] }
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let function = caches.of::<Function>().get(key)?;
        let uid = function.metadata.uid.clone().unwrap_or_default();
        let mut demands = caches.of::<FunctionDemand>().in_namespace(&key.namespace);
        demands.retain(|demand| function_of(demand) == key.name);
        let mut maps = caches.of::<ConfigMap>().in_namespace(&key.namespace);
        maps.retain(|map| is_controlled_by(&map.metadata, &uid));
        let (mut builds, pods): (Vec<_>, Vec<_>) =
            caches.of::<Pod>().controlled_by(&uid).into_iter().partition(|pod| build::key_of(pod).is_some());
        let newest = revision::hash(&function);
        let map = maps.iter().find(|map| revision::hash_of(&map.metadata) == newest);
        let needed = map.and_then(|map| label(map, BUILD_LABEL)).map(str::to_owned);
        let (mut maps_alike, mut build_settings) = (Vec::new(), BTreeMap::new());
        if let Some(needed) = needed.as_deref() {
            maps_alike = caches.of::<ConfigMap>().in_namespace(&key.namespace);
            maps_alike.retain(|map| label(map, BUILD_LABEL) == Some(needed));
            let mut others = caches.of::<Pod>().in_namespace(&key.namespace);
            others.retain(|pod| build::key_of(pod) == Some(needed) && !is_controlled_by(&pod.metadata, &uid));
            builds.extend(others);
            for namespace in ["kube-system", &key.namespace] {
                let settings = caches.of::<ConfigMap>().get(&Key::new(namespace, BUILD_SETTINGS));
                build_settings.extend(settings.and_then(|map| map.data.clone()).unwrap_or_default());
            }
        }
        Some(Observed {
            in_registry: self.in_registry,
            pods,
            maps,
            builds,
            maps_alike,
            build_settings,
            endpoints: caches.of::<FunctionEndpoints>().get(key),
            demands,
            url: format!("http://{}.{}.fn.{}", key.name, key.namespace, domain(caches)),
            function,
        })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }

    fn plan_failure(&self, seen: &Observed, error: &str, now: Timestamp) -> Plan {
        status::plan_failure(seen, error, now)
    }
}

/// The functions of a namespace that need what these inputs lead to.
fn needing(caches: &Caches, namespace: Option<&str>, build: Option<&str>) -> Vec<Key> {
    let (Some(namespace), Some(build)) = (namespace, build) else { return Vec::new() };
    let maps = caches.of::<ConfigMap>().in_namespace(namespace);
    let alike = maps.iter().filter(|map| label(map, BUILD_LABEL) == Some(build));
    alike.filter_map(|map| Some(Key::new(namespace, label(map, FUNCTION_LABEL)?))).collect()
}

fn label<'a>(map: &'a ConfigMap, name: &str) -> Option<&'a str> {
    map.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

fn domain(caches: &Caches) -> String {
    let settings = caches.of::<ConfigMap>().get(&Key::new(SETTINGS.0, SETTINGS.1));
    let domain = settings.and_then(|map| map.data.as_ref()?.get(SETTINGS.2).cloned());
    domain.unwrap_or_else(|| USUAL_DOMAIN.to_owned())
}

/// A demand is called FUNCTION.NODE; names of functions have no dot.
fn function_of(demand: &FunctionDemand) -> &str {
    let name = demand.metadata.name.as_deref().unwrap_or_default();
    name.split_once('.').map_or("", |(function, _)| function)
}
