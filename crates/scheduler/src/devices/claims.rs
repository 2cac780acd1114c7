//! The claims of a pod, and how far each of them is.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::ResourceClaim;
use minik8s_runtime::{Key, is_controlled_by};

use super::{Devices, MOST_CONSUMERS, allocation, consumers, uid};
use crate::snapshot::{NodeTerms, PodInfo};

pub enum ClaimState {
    /// There is no claim of this name.
    Missing(String),
    /// It is made from a template, and nobody has done so yet.
    NotMade,
    Deleted(String),
    /// Made for another pod of the same name.
    NotOurs(String),
    /// No more pods may use it at once.
    Full(String),
    /// Where it can be used; None: anywhere.
    Allocated(Arc<ResourceClaim>, Option<NodeTerms>),
    Unallocated(Arc<ResourceClaim>),
    /// Another pod is about to get it.
    Assumed(String),
}

impl Devices {
    /// By the names that the pod calls them. A template that makes no claim for the pod is left out.
    pub fn claims_of(&self, pod: &PodInfo) -> Vec<(String, ClaimState)> {
        let named = pod.spec().and_then(|spec| spec.resource_claims.as_ref()).into_iter().flatten();
        let statuses = pod.pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
        let states = named.filter_map(|entry| {
            let name = entry.name.clone();
            if let Some(claim) = &entry.resource_claim_name {
                return Some((name, self.state(pod, claim, false)));
            }
            match statuses.into_iter().flatten().find(|status| status.name == entry.name) {
                None => Some((name, ClaimState::NotMade)),
                Some(status) => {
                    status.resource_claim_name.as_ref().map(|claim| (name, self.state(pod, claim, true)))
                }
            }
        });
        states.collect()
    }

    fn state(&self, pod: &PodInfo, name: &str, made_for_pod: bool) -> ClaimState {
        let name = name.to_owned();
        let Some(claim) = self.claims.get(&Key::new(&*pod.key.namespace, &*name)) else {
            return ClaimState::Missing(name);
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return ClaimState::Deleted(name);
        }
        if made_for_pod && !is_controlled_by(&claim.metadata, &pod.uid) {
            return ClaimState::NotOurs(name);
        }
        let Some(allocation) = allocation(claim) else {
            return match self.assumed.get(uid(claim)) {
                Some((owner, _)) if *owner != pod.key => ClaimState::Assumed(name),
                _ => ClaimState::Unallocated(claim.clone()),
            };
        };
        let is_full = consumers(claim).count() >= MOST_CONSUMERS
            && consumers(claim).all(|consumer| consumer != pod.uid);
        if is_full {
            return ClaimState::Full(name);
        }
        ClaimState::Allocated(claim.clone(), allocation.node_selector.as_ref().map(NodeTerms::new))
    }
}
