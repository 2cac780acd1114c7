//! Devices that pods claim (`resource.k8s.io`): what drivers offer, who has what, and what a pod would get on a node.
//!
//! Claims, slices, classes and taint rules come in by events. What this scheduler has decided and the API does not show
//! yet is assumed, so that no device is given out twice. Pure: nothing here asks or writes anything; [`crate::run`] does
//! ([`crate::reserve`]).

mod allocate;
mod claims;
mod constraint;
mod consumption;
mod pool;
mod request;
mod result;
mod shortage;
mod taint;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice,
};
use minik8s_runtime::{Key, key_of};

use crate::snapshot::{NodeInfo, PodInfo};
pub use claims::ClaimState;
use pool::Pools;
pub use request::Wanted;
pub use shortage::Shortage;
pub use usage::Usage;

/// What every claim with an allocation has, so that it cannot go before its devices are free.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// So many may use one claim at once.
const MOST_CONSUMERS: usize = 256;

#[derive(Default)]
pub struct Devices {
    claims: HashMap<Key, Arc<ResourceClaim>>,
    pools: Pools,
    classes: HashMap<String, Arc<DeviceClass>>,
    rules: HashMap<String, Arc<DeviceTaintRule>>,
    /// By the claim's UID: decided for a pod, not yet seen in the claim.
    assumed: HashMap<String, (Key, AllocationResult)>,
}

/// What a pod needs of a claim before it can go to its node.
#[derive(Debug, Clone)]
pub struct Reservation {
    pub claim: Arc<ResourceClaim>,
    /// None: it is allocated already.
    pub allocation: Option<AllocationResult>,
}

impl Devices {
    pub fn set_claim(&mut self, claim: Arc<ResourceClaim>) {
        if allocation(&claim).is_some() {
            self.assumed.remove(uid(&claim));
        }
        self.claims.insert(key_of(&*claim), claim);
    }

    pub fn remove_claim(&mut self, claim: &ResourceClaim) {
        self.assumed.remove(uid(claim));
        self.claims.remove(&key_of(claim));
    }

    pub fn set_slice(&mut self, slice: &ResourceSlice) {
        self.pools.set(slice);
    }

    pub fn remove_slice(&mut self, slice: &ResourceSlice) {
        self.pools.remove(&key_of(slice).name);
    }

    pub fn set_class(&mut self, class: Arc<DeviceClass>) {
        self.classes.insert(key_of(&*class).name, class);
    }

    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    pub fn set_rule(&mut self, rule: Arc<DeviceTaintRule>) {
        self.rules.insert(key_of(&*rule).name, rule);
    }

    pub fn remove_rule(&mut self, name: &str) {
        self.rules.remove(name);
    }

    /// Whose devices are whose, with what is assumed.
    pub fn usage(&self) -> Usage {
        let seen = self.claims.values().filter_map(|claim| allocation(claim));
        let mut usage = Usage::default();
        seen.chain(self.assumed.values().map(|(_, assumed)| assumed)).for_each(|one| usage.add(one));
        usage
    }

    /// What those claims of a pod ask for that have nothing yet; else why nobody can give it.
    pub fn wanted(&self, states: &[(String, ClaimState)]) -> Result<Vec<Wanted>, String> {
        let open = states.iter().filter_map(|(_, state)| match state {
            ClaimState::Unallocated(claim) => Some(claim),
            _ => None,
        });
        open.map(|claim| Wanted::new(claim.clone(), &self.classes)).collect()
    }

    /// What the claims would get on a node, one allocation each.
    pub fn allocate(
        &self,
        wanted: &[Wanted],
        node: &NodeInfo,
        usage: &Usage,
    ) -> Result<Vec<AllocationResult>, Box<Shortage>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let offer = self.pools.offered_to(node, usage, &self.rules);
        let choices = allocate::allocate(wanted, &offer, usage)?;
        Ok(result::allocations(wanted, &choices, &node.name))
    }

    /// What a pod that goes to this node needs of its claims.
    pub fn reservations(&self, pod: &PodInfo, node: &NodeInfo) -> Result<Vec<Reservation>, String> {
        let states = self.claims_of(pod);
        let wanted = self.wanted(&states)?;
        let found = self.allocate(&wanted, node, &self.usage()).map_err(|shortage| shortage.to_string())?;
        let mut reservations: Vec<Reservation> = wanted
            .into_iter()
            .zip(found)
            .map(|(wanted, allocation)| Reservation { claim: wanted.claim, allocation: Some(allocation) })
            .collect();
        reservations.extend(states.into_iter().filter_map(|(_, state)| match state {
            ClaimState::Allocated(claim, _) => Some(Reservation { claim, allocation: None }),
            _ => None,
        }));
        Ok(reservations)
    }

    /// Counts with what was decided for a pod.
    pub fn assume(&mut self, pod: &Key, reservations: &[Reservation]) {
        for Reservation { claim, allocation } in reservations {
            if let Some(allocation) = allocation {
                self.assumed.insert(uid(claim).to_owned(), (pod.clone(), allocation.clone()));
            }
        }
    }

    /// The pod does not go there after all, or is gone.
    pub fn forget(&mut self, pod: &Key) {
        self.assumed.retain(|_, (owner, _)| owner != pod);
    }

    /// Claims that hold devices for a pod that finds no node with them: without them it may find another.
    pub fn deallocatable(&self, pod: &PodInfo) -> Option<Arc<ResourceClaim>> {
        let states = self.claims_of(pod);
        states.into_iter().find_map(|(_, state)| match state {
            ClaimState::Allocated(claim, _) => {
                let only_us = consumers(&claim).all(|consumer| consumer == pod.uid);
                let binds = allocation(&claim).is_some_and(|allocation| allocation.node_selector.is_some());
                (only_us && binds).then_some(claim)
            }
            _ => None,
        })
    }
}

fn uid(claim: &ResourceClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or("")
}

fn allocation(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

/// UIDs of those that may use a claim.
fn consumers(claim: &ResourceClaim) -> impl Iterator<Item = &str> {
    let reserved = claim.status.as_ref().and_then(|status| status.reserved_for.as_ref());
    reserved.into_iter().flatten().map(|consumer| consumer.uid.as_str())
}
