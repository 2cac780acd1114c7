//! Places kept for pods for which others had to go.
//!
//! In the snapshot such a pod counts as placed, so that nobody takes the room that is made for it; only pods
//! of higher priority look through it.

use std::collections::HashMap;
use std::sync::Arc;

use minik8s_runtime::Key;

use crate::snapshot::{PodInfo, Snapshot};

#[derive(Default)]
pub struct Nominations(HashMap<Key, (Arc<PodInfo>, String)>);

impl Nominations {
    pub fn keep(&mut self, pod: Arc<PodInfo>, node: &str, snapshot: &mut Snapshot) {
        snapshot.place(pod.clone(), node);
        self.0.insert(pod.key.clone(), (pod, node.to_owned()));
    }

    pub fn node_of(&self, key: &Key) -> Option<&str> {
        self.0.get(key).map(|(_, node)| node.as_str())
    }

    /// Gives the place up and says where it was.
    pub fn release(&mut self, key: &Key, snapshot: &mut Snapshot) -> Option<String> {
        let (_, node) = self.0.remove(key)?;
        snapshot.displace(key);
        Some(node)
    }

    /// The pod is really there now.
    pub fn fulfil(&mut self, key: &Key) -> bool {
        self.0.remove(key).is_some()
    }

    /// Takes the places of less important pods out of the snapshot; `restore` puts them back.
    pub fn set_aside(&self, priority: i32, snapshot: &mut Snapshot) -> Vec<(Arc<PodInfo>, String)> {
        let lower = self.0.values().filter(|(pod, _)| pod.priority < priority);
        let aside: Vec<_> = lower.cloned().collect();
        for (pod, _) in &aside {
            snapshot.displace(&pod.key);
        }
        aside
    }

    /// Those on the node that a more important pod was promised meanwhile are lost, and returned.
    pub fn restore(
        &mut self,
        aside: Vec<(Arc<PodInfo>, String)>,
        promised: Option<&str>,
        snapshot: &mut Snapshot,
    ) -> Vec<Key> {
        let mut lost = Vec::new();
        for (pod, node) in aside {
            if promised == Some(node.as_str()) {
                self.0.remove(&pod.key);
                lost.push(pod.key.clone());
            } else {
                snapshot.place(pod, &node);
            }
        }
        lost
    }
}
