//! The cluster as the scheduler sees it, kept current by events; nothing is rebuilt per pod.
//!
//! [`Snapshot`] holds nodes in stable slots with the sums of what runs there, and [`Tally`]s that count, per
//! node, the pods that a selector matches, so that pod affinity and topology spread cost the number of
//! nodes, not of pods. It decides nothing and talks to nobody.

mod affinity;
mod node;
mod pod;
mod resources;
mod tally;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node};
use minik8s_runtime::{Key, key_of};

pub use affinity::{NodeTerms, PodTerm, WeightedPodTerm};
pub use node::{HostPort, NodeInfo, Usage};
pub use pod::{PodInfo, SpreadConstraint};
pub use resources::Resources;
pub use tally::{Tallies, Tally};

use crate::volumes::Volumes;

/// A node's place for as long as the node exists.
pub type Slot = usize;

type Namespaces = HashMap<String, Arc<Namespace>>;

#[derive(Default)]
pub struct Snapshot {
    slots: Vec<Option<NodeInfo>>,
    free: Vec<Slot>,
    by_name: HashMap<String, Slot>,
    /// Where each known pod is.
    placed: HashMap<Key, (Arc<PodInfo>, String)>,
    tallies: Tallies,
    namespaces: Namespaces,
    pub volumes: Volumes,
    /// Counts changes of nodes, for caches of what depends on nodes alone.
    generation: u64,
}

impl Snapshot {
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.slots.iter().flatten()
    }

    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub fn node_at(&self, slot: Slot) -> Option<&NodeInfo> {
        self.slots.get(slot)?.as_ref()
    }

    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.node_at(*self.by_name.get(name)?)
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = node.metadata.name.clone().unwrap_or_default();
        self.generation += 1;
        if let Some(info) = self.by_name.get(&name).and_then(|&slot| self.slots[slot].as_mut()) {
            info.set_node(node);
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let mut info = NodeInfo::new(slot, node);
        // Pods may have been seen before their node.
        for (pod, on) in self.placed.values() {
            if *on == name {
                info.add_pod(pod.clone());
                self.tallies.add(pod, slot, &self.namespaces);
            }
        }
        self.slots[slot] = Some(info);
        self.by_name.insert(name, slot);
    }

    pub fn remove_node(&mut self, name: &str) {
        let Some(slot) = self.by_name.remove(name) else { return };
        self.generation += 1;
        if let Some(info) = self.slots[slot].take() {
            for pod in info.pods() {
                self.tallies.remove(pod, slot, &self.namespaces);
            }
        }
        self.free.push(slot);
    }

    /// Places a pod; if it was elsewhere or looked different, that is undone first.
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.displace(&pod.key);
        if let Some(&slot) = self.by_name.get(node)
            && let Some(info) = self.slots[slot].as_mut()
        {
            info.add_pod(pod.clone());
            self.tallies.add(&pod, slot, &self.namespaces);
        }
        self.placed.insert(pod.key.clone(), (pod, node.to_owned()));
    }

    /// Takes a pod away and says where it was.
    pub fn displace(&mut self, key: &Key) -> Option<(Arc<PodInfo>, String)> {
        let (pod, node) = self.placed.remove(key)?;
        if let Some(&slot) = self.by_name.get(&node)
            && let Some(info) = self.slots[slot].as_mut()
        {
            info.remove_pod(&pod);
            self.tallies.remove(&pod, slot, &self.namespaces);
        }
        Some((pod, node))
    }

    pub fn placed_on(&self, key: &Key) -> Option<&str> {
        self.placed.get(key).map(|(_, node)| node.as_str())
    }

    pub fn set_namespace(&mut self, namespace: Arc<Namespace>) {
        let name = key_of(&*namespace).name;
        let relabelled =
            self.namespaces.get(&name).is_none_or(|n| n.metadata.labels != namespace.metadata.labels);
        self.namespaces.insert(name, namespace);
        if relabelled {
            // Tallies with namespace selectors depend on the labels.
            self.tallies.forget_counts();
        }
    }

    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces.get(name)
    }

    /// Per slot, how many pods there a term's selector matches. Counted once, then kept current.
    pub fn matching(&self, term: &PodTerm) -> Arc<Tally> {
        self.tallies.matching(term, || {
            let mut tally = Tally::default();
            for node in self.nodes() {
                let count = node.pods().filter(|pod| self.term_matches(term, pod)).count();
                tally.set(node.slot, count);
            }
            tally
        })
    }

    /// The required anti-affinity terms of placed pods, with how many of their owners are where.
    pub fn anti_affinity_terms(&self) -> impl Iterator<Item = (&Arc<PodTerm>, &Tally)> {
        self.tallies.anti_affinity_terms()
    }

    /// The affinity and preference terms of placed pods that may favour a newcomer, likewise.
    pub fn affinity_terms(&self) -> impl Iterator<Item = (&Arc<WeightedPodTerm>, &Tally)> {
        self.tallies.affinity_terms()
    }

    pub fn term_matches(&self, term: &PodTerm, pod: &PodInfo) -> bool {
        tally::matches(term, pod, &self.namespaces)
    }
}
