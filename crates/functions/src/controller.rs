//! What wakes the function controller and what it looks at. The decisions are in [`crate::plan`].

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::function::{Function, FunctionDemand, FunctionEndpoints};
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, is_controlled_by};

use crate::{plan, status};

pub struct FunctionController;

/// The ConfigMap of the cluster's settings, and in it the domain of the cluster's names.
const SETTINGS: (&str, &str, &str) = ("kube-system", "minik8s-cluster", "dns.domain");
const USUAL_DOMAIN: &str = "cluster.local";

/// All that a plan is made of.
pub struct Observed {
    pub function: Arc<Function>,
    pub pods: Vec<Arc<Pod>>,
    /// Of its revisions.
    pub maps: Vec<Arc<ConfigMap>>,
    pub endpoints: Option<Arc<FunctionEndpoints>>,
    /// Of all nodes.
    pub demands: Vec<Arc<FunctionDemand>>,
    pub url: String,
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
        Some(Observed {
            pods: caches.of::<Pod>().controlled_by(&uid),
            maps,
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
