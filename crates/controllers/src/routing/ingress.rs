//! The addresses in the status of Ingresses: those of the nodes, whose routers all answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::networking::v1::{
    Ingress, IngressClass, IngressLoadBalancerIngress, IngressLoadBalancerStatus, IngressStatus,
};
use k8s_openapi::jiff::Timestamp;
use minik8s_api::routing::serves;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

pub struct IngressStatuses;

pub struct Observed {
    ingress: Arc<Ingress>,
    /// Whether the router answers for it.
    ours: bool,
    /// Addresses of ready nodes.
    addresses: BTreeSet<String>,
}

impl Controller for IngressStatuses {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "ingress-status-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Ingress>();
        watches.on::<IngressClass>(|caches, _| everyone(caches));
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            // Nodes report every few seconds; hardly ever does it matter here.
            if old.and_then(address) == new.and_then(address) { Vec::new() } else { everyone(&caches) }
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let ingress = caches.of::<Ingress>().get(key)?;
        let classes = caches.of::<IngressClass>().list();
        let ours = serves(&ingress, classes.iter().map(AsRef::as_ref));
        let nodes = caches.of::<Node>().list();
        let addresses = nodes.iter().filter_map(|node| address(node)).map(str::to_owned).collect();
        Some(Observed { ingress, ours, addresses })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        // The status of an Ingress that is another controller's is that controller's.
        if !seen.ours || seen.ingress.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let entry = |ip: &String| IngressLoadBalancerIngress { ip: Some(ip.clone()), ..Default::default() };
        let wanted: Vec<_> = seen.addresses.iter().map(entry).collect();
        let status = seen.ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        if status.and_then(|status| status.ingress.as_deref()).unwrap_or_default() != wanted {
            let mut new = Ingress::clone(&seen.ingress);
            let balancer =
                IngressLoadBalancerStatus { ingress: Some(wanted).filter(|list| !list.is_empty()) };
            new.status = Some(IngressStatus { load_balancer: Some(balancer) });
            plan.status(&*seen.ingress, new);
        }
        plan
    }
}

fn everyone(caches: &Caches) -> Vec<Key> {
    caches.of::<Ingress>().list().iter().map(|ingress| key_of(&**ingress)).collect()
}

/// Where a ready node is reached from outside.
fn address(node: &Node) -> Option<&str> {
    let status = node.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    let of_type = |kind: &str| status.addresses.iter().flatten().find(|address| address.type_ == kind);
    of_type("ExternalIP").or_else(|| of_type("InternalIP")).map(|address| address.address.as_str())
}
