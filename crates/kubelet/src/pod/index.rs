//! The pods of this node by name, for those who are asked for one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::timeout;

use super::desired_pod::identity;

/// For an agent that has just started to learn of its pods.
const START: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct PodIndex {
    pods: RwLock<BTreeMap<String, Arc<core::Pod>>>,
    /// Whether all pods of the node have been seen once.
    complete: watch::Sender<bool>,
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

    /// Whether a pod is over, or not here at all.
    pub fn has_ended(&self, uid: &str) -> bool {
        let pods = self.pods.read();
        let status = pods.get(uid).map(|pod| pod.status.as_ref());
        let phase = status.map(|status| status.and_then(|status| status.phase.as_deref()));
        phase.is_none_or(|phase| matches!(phase, Some("Succeeded" | "Failed")))
    }

    /// From now on a pod that is not here does not run on this node.
    pub fn complete(&self) {
        self.complete.send_replace(true);
    }

    /// As [`Self::by_name`], but one that is not known yet is waited for while the agent starts.
    pub async fn awaited(&self, namespace: &str, name: &str) -> Option<Arc<core::Pod>> {
        if let Some(pod) = self.by_name(namespace, name) {
            return Some(pod);
        }
        let mut complete = self.complete.subscribe();
        let _ = timeout(START, complete.wait_for(|is_complete| *is_complete)).await;
        self.by_name(namespace, name)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pod_is_awaited_while_the_agent_starts_and_not_later() {
        let index = Arc::new(PodIndex::default());
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}});
        let pod: core::Pod = serde_json::from_value(pod).unwrap();
        let asking = tokio::spawn({
            let index = index.clone();
            async move { index.awaited("ns", "p").await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!asking.is_finished());
        index.insert(Arc::new(pod));
        index.complete();
        assert!(asking.await.unwrap().is_some());
        let begun = tokio::time::Instant::now();
        assert!(index.awaited("ns", "q").await.is_none());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // A server that is away keeps nobody for ever.
        assert!(PodIndex::default().awaited("ns", "q").await.is_none());
        assert_eq!(begun.elapsed(), START);
    }

    #[test]
    fn pod_has_ended_when_its_phase_says_so_or_it_is_not_here() {
        let index = PodIndex::default();
        assert!(index.has_ended("u"));
        for (phase, expected) in
            [("Pending", false), ("Running", false), ("Succeeded", true), ("Failed", true)]
        {
            let pod =
                json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "status": {"phase": phase}});
            index.insert(Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(index.has_ended("u"), expected, "{phase}");
        }
    }
}
