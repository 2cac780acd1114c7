//! The pods of this node by name, for those who are asked for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use parking_lot::RwLock;

use super::blueprint::identity;

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
