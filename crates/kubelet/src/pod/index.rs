//! The pods of this node by name, for those who are asked for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use parking_lot::RwLock;

use super::desired_pod::identity;

#[derive(Default)]
pub struct PodIndex {
    pods: RwLock<BTreeMap<String, Arc<core::Pod>>>,
}

impl PodIndex {
    pub fn insert(&self, pod: Arc<core::Pod>) {
        self.pods.write().insert(identity(&pod), pod);
    }

    pub fn remove(&self, uid: &str) {
        self.pods.write().remove(uid);
    }

    pub fn all(&self) -> Vec<Arc<core::Pod>> {
        self.pods.read().values().cloned().collect()
    }

    /// The newest pod of this name; an older one may still be ending.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<core::Pod>> {
        let named = |pod: &&Arc<core::Pod>| {
            let meta = &pod.metadata;
            meta.name.as_deref() == Some(name) && meta.namespace.as_deref() == Some(namespace)
        };
        let pods = self.pods.read();
        pods.values().filter(named).max_by_key(|pod| pod.metadata.creation_timestamp.clone()).cloned()
    }
}

/// Drops what nobody here reads, and the room for three more that every list is read with.
pub fn make_small(pod: &mut core::Pod) {
    pod.metadata.managed_fields = None;
    if let Some(spec) = &mut pod.spec {
        spec.containers.shrink_to_fit();
        spec.volumes.iter_mut().for_each(Vec::shrink_to_fit);
        let projected = spec.volumes.iter_mut().flatten().filter_map(|volume| volume.projected.as_mut());
        projected.flat_map(|projected| &mut projected.sources).for_each(Vec::shrink_to_fit);
    }
    if let Some(status) = &mut pod.status {
        status.conditions.iter_mut().for_each(Vec::shrink_to_fit);
        status.container_statuses.iter_mut().for_each(Vec::shrink_to_fit);
    }
}
