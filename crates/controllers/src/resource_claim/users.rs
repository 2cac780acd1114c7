//! Who uses a claim, and what becomes of its devices when nobody does.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, Key, Kind, Plan, Target, Watches, controller_of};

use super::FINALIZER;
use crate::pods;

pub struct ClaimUsers;

pub struct Observed {
    claim: Arc<ResourceClaim>,
    users: Vec<(ResourceClaimConsumerReference, User)>,
    /// The pod for which it was made is over.
    is_left: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// It may use the claim, or it is nothing that is known here.
    Stays,
    /// Finished, or deleted before it had a node.
    Over,
    /// Not in the cache, which may lag behind.
    Unknown,
}

impl Controller for ClaimUsers {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "resource-claim-user-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<ResourceClaim>();
        watches.on_change::<Pod>(|old, new| {
            let Some(pod) = new.or(old) else { return Vec::new() };
            let was = old.is_none_or(is_over);
            let ends = new.is_none_or(is_over) && !(was && new.is_some());
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
            if !ends {
                return Vec::new();
            }
            let named = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
            let named = named.filter_map(|entry| entry.resource_claim_name.as_deref());
            let made = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
            let made = made.filter_map(|status| status.resource_claim_name.as_deref());
            named.chain(made).map(|name| Key::new(namespace, name)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let claim = caches.of::<ResourceClaim>().get(key)?;
        let all = caches.of::<Pod>();
        let found = |name: &str, uid: &str| {
            let pod = all.get(&Key::new(&*key.namespace, name));
            pod.filter(|pod| pod.metadata.uid.as_deref() == Some(uid))
        };
        let reserved = claim.status.iter().flat_map(|status| status.reserved_for.iter().flatten());
        let users = reserved.map(|consumer| {
            let is_pod =
                consumer.resource == "pods" && consumer.api_group.as_deref().unwrap_or("").is_empty();
            let user = match found(&consumer.name, &consumer.uid) {
                _ if !is_pod => User::Stays,
                None => User::Unknown,
                Some(pod) if is_over(&pod) => User::Over,
                Some(_) => User::Stays,
            };
            (consumer.clone(), user)
        });
        let users = users.collect();
        let owner = controller_of(&claim.metadata).filter(|owner| owner.kind == "Pod");
        let owner = owner.and_then(|owner| found(&owner.name, &owner.uid));
        let is_left = owner.is_some_and(|pod| pods::is_finished(&pod));
        Some(Observed { claim, users, is_left })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let claim = &*seen.claim;
        let is_deleted = claim.metadata.deletion_timestamp.is_some();
        for (consumer, _) in seen.users.iter().filter(|(_, user)| *user == User::Unknown) {
            plan.act(Action::RequireAbsent { target: pod_of(claim, consumer) });
        }
        let stays: Vec<_> = seen.users.iter().filter(|(_, user)| *user == User::Stays).collect();
        let has_devices = claim.status.as_ref().is_some_and(|status| status.allocation.is_some());
        let lost_users = stays.len() < seen.users.len();
        let is_free = stays.is_empty() && (lost_users || is_deleted);
        if lost_users || (is_free && has_devices) {
            let mut new = claim.clone();
            let status = new.status.get_or_insert_default();
            let left: Vec<_> = stays.iter().map(|(consumer, _)| consumer.clone()).collect();
            status.reserved_for = Some(left).filter(|left| !left.is_empty());
            if is_free {
                status.allocation = None;
                status.devices = None;
            }
            plan.act(Action::update_status(&new));
            // What follows is for the claim as it is then.
            return plan;
        }
        let protection = claim.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER);
        if is_deleted && protection && !has_devices && stays.is_empty() {
            let mut new = claim.clone();
            new.metadata.finalizers.iter_mut().for_each(|all| all.retain(|name| name != FINALIZER));
            plan.act(Action::update(&new));
        }
        if seen.is_left && !is_deleted && stays.is_empty() {
            plan.act(Action::delete(claim));
        }
        plan
    }
}

fn is_over(pod: &Pod) -> bool {
    pods::is_finished(pod) || (pods::is_terminating(pod) && pods::node_name(pod).is_none())
}

fn pod_of(claim: &ResourceClaim, consumer: &ResourceClaimConsumerReference) -> Target {
    Target {
        kind: Kind::of::<Pod>(),
        key: Key::new(claim.metadata.namespace.as_deref().unwrap_or(""), &*consumer.name),
        uid: Some(consumer.uid.clone()),
        resource_version: None,
    }
}
