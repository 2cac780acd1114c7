//! The devices that a pod claims must be had on the node.

use super::{Check, Filter, Refusal};
use crate::devices::ClaimState;
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

const OUT_OF_REACH: &str = "resourceclaim not available on the node";

pub struct DynamicResources;

impl Filter for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>> {
        pod.spec()?.resource_claims.as_ref().filter(|claims| !claims.is_empty())?;
        let devices = &snapshot.devices;
        let states = devices.claims_of(pod);
        let hopeless = states.iter().find_map(|(name, state)| hopeless(name, state));
        let wanted = devices.wanted(&states).map_err(Refusal::everywhere);
        let wanted = match (hopeless, wanted) {
            (Some(refusal), _) | (None, Err(refusal)) => {
                return Some(Box::new(move |_| Err(refusal.clone())));
            }
            (None, Ok(wanted)) => wanted,
        };
        let usage = devices.usage();
        Some(Box::new(move |node| {
            if !states.iter().all(|(_, state)| is_reached(state, node)) {
                return Err(Refusal::fixed(OUT_OF_REACH));
            }
            let found = devices.allocate(&wanted, node, &usage);
            found.map(drop).map_err(|shortage| Refusal::fixed(shortage.to_string()))
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::DEVICE | Waking::POD_GONE
    }

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> String {
        let devices = &snapshot.devices;
        let states = devices.claims_of(pod);
        for (name, state) in &states {
            match state {
                ClaimState::Missing(claim) => return format!("create the ResourceClaim {claim}"),
                ClaimState::NotMade => {
                    return format!(
                        "see that the ResourceClaimTemplate of {name} exists; its claim is made from it"
                    );
                }
                ClaimState::Deleted(claim) => {
                    return format!("the claim {claim} is being deleted: use another");
                }
                ClaimState::NotOurs(claim) => {
                    return format!("delete the claim {claim}, which was made for another pod");
                }
                ClaimState::Full(claim) => return format!("wait until fewer pods use {claim}"),
                ClaimState::Assumed(claim) => return format!("wait: another pod is about to get {claim}"),
                ClaimState::Allocated(claim, _) if !is_reached(state, node) => {
                    let claim = claim.metadata.name.as_deref().unwrap_or("");
                    return format!("the devices of {claim} are on another node: use that one");
                }
                _ => {}
            }
        }
        match devices.wanted(&states) {
            Err(problem) => format!("create what is missing: {problem}"),
            Ok(wanted) => match devices.allocate(&wanted, node, &devices.usage()) {
                Err(shortage) => shortage.remedy(),
                Ok(_) => String::new(),
            },
        }
    }
}

fn is_reached(state: &ClaimState, node: &NodeInfo) -> bool {
    match state {
        ClaimState::Allocated(_, Some(terms)) => terms.admits(node),
        _ => true,
    }
}

/// What no node can change.
fn hopeless(name: &str, state: &ClaimState) -> Option<Refusal> {
    Some(Refusal::everywhere(match state {
        ClaimState::Missing(claim) => format!("resourceclaim \"{claim}\" not found"),
        ClaimState::NotMade => {
            format!("waiting for the resourceclaim of \"{name}\" to be made from its template")
        }
        ClaimState::Deleted(claim) => format!("resourceclaim \"{claim}\" is being deleted"),
        ClaimState::NotOurs(claim) => format!("resourceclaim \"{claim}\" was not created for this pod"),
        ClaimState::Full(claim) => format!("resourceclaim \"{claim}\" has as many users as it can have"),
        ClaimState::Assumed(claim) => format!("resourceclaim \"{claim}\" is being allocated for another pod"),
        ClaimState::Allocated(..) | ClaimState::Unallocated(_) => return None,
    }))
}
