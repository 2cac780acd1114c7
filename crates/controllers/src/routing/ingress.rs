//! The addresses in the status of Ingresses: those of the nodes, whose routers all answer. An Ingress has no
//! conditions: that a place belongs to an older object is told by an event.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::networking::v1::{
    Ingress, IngressClass, IngressLoadBalancerIngress, IngressLoadBalancerStatus, IngressStatus,
};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::dns::Dns;
use minik8s_meta::routing::{claims_of_dns, claims_of_ingress, serves};
use minik8s_runtime::{Caches, Controller, EventRecord, Key, Plan, Watches, key_of};

use super::conflict::{accepted, owner_before};

pub struct IngressStatuses;

pub struct Observed {
    ingress: Arc<Ingress>,
    /// Whether the router answers for it.
    ours: bool,
    /// Addresses of ready nodes.
    addresses: BTreeSet<String>,
    /// Others that the router answers for, and that have a host in common with this one.
    others: Vec<Arc<Ingress>>,
    dns: Vec<Arc<Dns>>,
}

impl Controller for IngressStatuses {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "ingress-status-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Ingress>();
        watches.needs::<Dns>();
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
        let claims = claims_of_ingress(&ingress);
        let shares = |host: &str| claims.iter().any(|claim| claim.host == host);
        let mut others = caches.of::<Ingress>().list();
        others.retain(|other| {
            key_of(&**other) != *key
                && claims_of_ingress(other).iter().any(|claim| shares(claim.host))
                && serves(other, classes.iter().map(AsRef::as_ref))
        });
        let mut dns = caches.of::<Dns>().list();
        dns.retain(|dns| dns.paths().any(|(host, _)| shares(host)));
        Some(Observed { ours, addresses, others, dns, ingress: ingress.clone() })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        // The status of an Ingress that is another controller's is that controller's.
        if !seen.ours || seen.ingress.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        if let Err(message) = seen.accepted() {
            plan.event(EventRecord::warning(&*seen.ingress, "Conflict", message));
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

impl Observed {
    #[cfg(test)]
    pub(super) fn of(ingress: Arc<Ingress>, others: Vec<Arc<Ingress>>) -> Self {
        Observed { ingress, ours: true, addresses: BTreeSet::new(), others, dns: Vec::new() }
    }

    fn accepted(&self) -> Result<(), String> {
        let claims = claims_of_ingress(&self.ingress);
        let others = || {
            let of_ingresses = self.others.iter().flat_map(|ingress| claims_of_ingress(ingress));
            of_ingresses.chain(self.dns.iter().flat_map(|dns| claims_of_dns(dns)))
        };
        let conflicts: Vec<_> = claims.iter().map(|claim| owner_before(claim, others())).collect();
        accepted(&claims, &conflicts)
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
