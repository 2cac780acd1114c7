//! What the scheduler needs to know of claims, volumes and storage classes.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use minik8s_runtime::{Key, key_of};

use crate::snapshot::{NodeInfo, NodeTerms, PodInfo};

#[derive(Default)]
pub struct Volumes {
    claims: HashMap<Key, Arc<PersistentVolumeClaim>>,
    volumes: HashMap<String, Arc<PersistentVolume>>,
    classes: HashMap<String, Arc<StorageClass>>,
}

/// How far a claim is on its way to a volume.
pub enum ClaimState {
    Missing(String),
    /// Nobody has bound it, and that must happen first.
    Unbound,
    /// Its volume is chosen after the pod's node is.
    WaitsForConsumer,
    BoundTo(Reach),
}

/// The nodes a volume can be reached from.
pub struct Reach(Option<NodeTerms>);

impl Reach {
    pub fn admits(&self, node: &NodeInfo) -> bool {
        self.0.as_ref().is_none_or(|terms| terms.admits(node))
    }
}

impl Volumes {
    pub fn set_claim(&mut self, claim: Arc<PersistentVolumeClaim>) {
        self.claims.insert(key_of(&*claim), claim);
    }

    pub fn remove_claim(&mut self, key: &Key) {
        self.claims.remove(key);
    }

    pub fn set_volume(&mut self, volume: Arc<PersistentVolume>) {
        self.volumes.insert(key_of(&*volume).name, volume);
    }

    pub fn remove_volume(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    pub fn set_class(&mut self, class: Arc<StorageClass>) {
        self.classes.insert(key_of(&*class).name, class);
    }

    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    /// Names of the claims that a pod mounts, with those made for it from templates.
    pub fn claims_of(&self, pod: &PodInfo) -> Vec<String> {
        let volumes = pod.spec().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
        volumes
            .filter_map(|volume| {
                let named = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone());
                let made = || volume.ephemeral.as_ref().map(|_| format!("{}-{}", pod.key.name, volume.name));
                named.or_else(made)
            })
            .collect()
    }

    pub fn state(&self, namespace: &str, claim: &str) -> ClaimState {
        let Some(found) = self.claims.get(&Key::new(namespace, claim)) else {
            return ClaimState::Missing(claim.to_owned());
        };
        let spec = found.spec.as_ref();
        let volume = spec.and_then(|s| s.volume_name.as_deref()).filter(|name| !name.is_empty());
        if let Some(volume) = volume {
            return match self.volumes.get(volume) {
                Some(volume) => ClaimState::BoundTo(Reach(reach(volume))),
                None => ClaimState::Unbound,
            };
        }
        let class = spec.and_then(|s| s.storage_class_name.as_deref()).and_then(|c| self.classes.get(c));
        let waits = class.is_some_and(|c| c.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
        if waits { ClaimState::WaitsForConsumer } else { ClaimState::Unbound }
    }

    /// Claims of a pod whose volumes are chosen for the node it goes to.
    pub fn waiting_claims(&self, pod: &PodInfo) -> Vec<Arc<PersistentVolumeClaim>> {
        let names = self.claims_of(pod);
        names
            .iter()
            .filter(|name| matches!(self.state(&pod.key.namespace, name), ClaimState::WaitsForConsumer))
            .filter_map(|name| self.claims.get(&Key::new(&*pod.key.namespace, &**name)).cloned())
            .collect()
    }
}

fn reach(volume: &PersistentVolume) -> Option<NodeTerms> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    affinity.required.as_ref().map(NodeTerms::new)
}
