//! A pod's persistent volumes must exist and be reachable from the node.

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::volumes::ClaimState;
use crate::waking::Waking;

const OUT_OF_REACH: &str = "node(s) didn't match PersistentVolume's node affinity";
const NO_ROOM: &str = "node(s) did not have enough free storage";
const NONE_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";

pub struct VolumeBinding;

impl Filter for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>> {
        let states = states(pod, snapshot);
        if states.is_empty() {
            return None;
        }
        if let Some(refusal) = states.iter().find_map(|(name, state)| hopeless(name, state)) {
            return Some(Box::new(move |_| Err(refusal.clone())));
        }
        Some(Box::new(move |node| {
            for (_, state) in &states {
                match state {
                    ClaimState::BoundTo(reach) if !reach.admits(node) => {
                        return Err(Refusal::fixed(OUT_OF_REACH));
                    }
                    ClaimState::WaitsForConsumer(offer) if !offer.admits(node) => {
                        let lacks_room = offer.lacks_room(node);
                        return Err(Refusal::fixed(if lacks_room { NO_ROOM } else { NONE_TO_BIND }));
                    }
                    _ => {}
                }
            }
            Ok(())
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::VOLUME | Waking::POD_GONE
    }

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> String {
        for (name, state) in states(pod, snapshot) {
            match state {
                ClaimState::Missing => return format!("create the PersistentVolumeClaim {name}"),
                ClaimState::Deleted => return format!("the claim {name} is being deleted: use another"),
                ClaimState::Unbound => return format!("provide a PersistentVolume for the claim {name}"),
                ClaimState::TakenBy(holder) => {
                    return format!("wait for {holder}, which alone may use {name}");
                }
                ClaimState::BoundTo(reach) if !reach.admits(node) => {
                    return format!("the volume of {name} cannot be reached from here: use another node");
                }
                ClaimState::WaitsForConsumer(offer) if offer.lacks_room(node) && !offer.admits(node) => {
                    return format!("ask for less in {name}, or free storage that this node can reach");
                }
                ClaimState::WaitsForConsumer(offer) if !offer.admits(node) => {
                    return format!("provide a PersistentVolume for {name} that this node can reach");
                }
                _ => {}
            }
        }
        String::new()
    }
}

fn states<'a>(pod: &PodInfo, snapshot: &'a Snapshot) -> Vec<(String, ClaimState<'a>)> {
    let claims = snapshot.volumes.claims_of(pod).into_iter();
    claims
        .map(|claim| {
            let state = match snapshot.holder_of_exclusive(pod, &claim) {
                Some(holder) => ClaimState::TakenBy(holder.key.to_string()),
                None => snapshot.volumes.state(&pod.key.namespace, &claim),
            };
            (claim, state)
        })
        .collect()
}

/// What no node can change.
fn hopeless(claim: &str, state: &ClaimState<'_>) -> Option<Refusal> {
    match state {
        ClaimState::Missing => {
            Some(Refusal::everywhere(format!("persistentvolumeclaim \"{claim}\" not found")))
        }
        ClaimState::Deleted => {
            Some(Refusal::everywhere(format!("persistentvolumeclaim \"{claim}\" is being deleted")))
        }
        ClaimState::Unbound => Some(Refusal::everywhere("pod has unbound immediate PersistentVolumeClaims")),
        ClaimState::TakenBy(_) => Some(Refusal::by_pods(
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
        )),
        ClaimState::WaitsForConsumer(_) | ClaimState::BoundTo(_) => None,
    }
}
