//! A pod's persistent volumes must exist and be reachable from the node.

use super::{Check, Filter, Refusal};
use crate::snapshot::{PodInfo, Snapshot};
use crate::volumes::ClaimState;
use crate::waking::Waking;

pub struct VolumeBinding;

impl Filter for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>> {
        let claims = snapshot.volumes.claims_of(pod);
        if claims.is_empty() {
            return None;
        }
        let states: Vec<ClaimState> =
            claims.iter().map(|claim| snapshot.volumes.state(&pod.key.namespace, claim)).collect();
        Some(Box::new(move |node| {
            for state in &states {
                match state {
                    ClaimState::Missing(name) => {
                        return Err(Refusal::fixed(format!("persistentvolumeclaim \"{name}\" not found")));
                    }
                    ClaimState::Unbound => {
                        let reason = "pod has unbound immediate PersistentVolumeClaims";
                        return Err(Refusal::fixed(reason));
                    }
                    ClaimState::BoundTo(reach) if !reach.admits(node) => {
                        let reason = "node(s) had volume node affinity conflict";
                        return Err(Refusal::fixed(reason));
                    }
                    ClaimState::BoundTo(_) | ClaimState::WaitsForConsumer => {}
                }
            }
            Ok(())
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::VOLUME
    }
}
