//! How many pods there should be, as their controllers say.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use minik8s_runtime::{Caches, Key, controller_of};

/// The wanted number of pods of all controllers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale(pub i32);

impl Scale {
    /// Or the pod whose controller nobody knows the size of.
    pub(super) fn of(caches: &Caches, namespace: &str, pods: &[Arc<Pod>]) -> Result<Scale, String> {
        let mut sizes: BTreeMap<String, i32> = BTreeMap::new();
        for pod in pods {
            let name = pod.metadata.name.as_deref().unwrap_or("");
            let Some(owner) = controller_of(&pod.metadata) else {
                return Err(format!("found no controllers for pod \"{name}\""));
            };
            if sizes.contains_key(&owner.uid) {
                continue;
            }
            let key = Key::new(namespace, &*owner.name);
            let (uid, size) = match owner.kind.as_str() {
                "ReplicaSet" => of_replica_set(caches, &key, &owner.uid),
                "StatefulSet" => {
                    let set = caches.of::<StatefulSet>().get(&key);
                    (owner.uid.clone(), set.map(|set| set.spec.replicas.unwrap_or(1)))
                }
                "ReplicationController" => {
                    let rc = caches.of::<ReplicationController>().get(&key);
                    (owner.uid.clone(), rc.map(|rc| rc.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)))
                }
                kind => return Err(format!("{kind} \"{}\" has no scale", owner.name)),
            };
            // One that is gone wants nothing any more.
            sizes.insert(uid, size.unwrap_or(0));
        }
        Ok(Scale(sizes.values().fold(0, |sum: i32, size| sum.saturating_add(*size))))
    }
}

/// The Deployment above counts, once, for all its sets.
fn of_replica_set(caches: &Caches, key: &Key, uid: &str) -> (String, Option<i32>) {
    let Some(set) = caches.of::<ReplicaSet>().get(key) else { return (uid.to_owned(), None) };
    let above = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment");
    let deployment = above.and_then(|owner| {
        let deployment = caches.of::<Deployment>().get(&Key::new(&*key.namespace, &*owner.name))?;
        Some((owner.uid.clone(), Some(deployment.spec.replicas.unwrap_or(1))))
    });
    deployment.unwrap_or_else(|| (uid.to_owned(), Some(set.spec.replicas.unwrap_or(1))))
}
