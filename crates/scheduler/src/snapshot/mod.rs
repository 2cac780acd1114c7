//! The cluster as the scheduler sees it, kept current by events; nothing is rebuilt per pod.
//!
//! [`Snapshot`] holds nodes in stable slots with the sums of what runs there, and [`Tally`]s that count, per
//! node, the pods that a selector matches, so that pod affinity and topology spread cost the number of
//! nodes, not of pods. It decides nothing and talks to nobody.

mod affinity;
mod node;
mod pod;
mod tally;
mod topology;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node};
use minik8s_runtime::{Key, key_of};

pub use affinity::{NodeTerms, PodTerm, WeightedPodTerm};
pub use minik8s_runtime::placement::{HostPort, Resources};
pub use node::{NodeInfo, Usage};
pub use pod::{PodInfo, SpreadConstraint};
pub use tally::{Tallies, Tally};
pub use topology::Topology;

use crate::devices::Devices;
use crate::volumes::Volumes;
use topology::Topologies;

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
    pub devices: Devices,
    topologies: Topologies,
    /// How many placed pods have each priority.
    priorities: BTreeMap<i32, usize>,
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

    /// The domains of a topology key. Worked out once, then kept until nodes or their labels change.
    pub fn topology(&self, key: &str) -> Arc<Topology> {
        self.topologies.get(key, self.nodes())
    }

    /// Whether any placed pod is less important than this.
    pub fn has_lower_than(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(info) = self.by_name.get(&name).and_then(|&slot| self.slots[slot].as_mut()) {
            if info.node.metadata.labels != node.metadata.labels {
                self.topologies.forget();
            }
            info.set_node(node);
            return;
        }
        self.topologies.forget();
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
        self.topologies.forget();
        if let Some(info) = self.slots[slot].take() {
            for pod in info.pods() {
                self.tallies.remove(pod, slot, &self.namespaces);
            }
        }
        self.free.push(slot);
    }

    /// Places a pod; if it was elsewhere or looked different, that is undone first.
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        // One that stays where it is keeps its place among the newcomers, or outside of them.
        let stays = self.placed_on(&pod.key) == Some(node);
        let newcomer = self.node(node).filter(|_| stays).map(|info| info.newcomers.get(&pod.key).cloned());
        self.displace(&pod.key);
        if let Some(&slot) = self.by_name.get(node)
            && let Some(info) = self.slots[slot].as_mut()
        {
            info.add_pod(pod.clone());
            if let Some(before) = newcomer {
                info.newcomers.remove(&pod.key);
                info.newcomers.extend(before.map(|known| (pod.key.clone(), known)));
            }
            self.tallies.add(&pod, slot, &self.namespaces);
        }
        *self.priorities.entry(pod.priority).or_default() += 1;
        self.placed.insert(pod.key.clone(), (pod, node.to_owned()));
    }

    /// Takes a pod away and says where it was.
    pub fn displace(&mut self, key: &Key) -> Option<(Arc<PodInfo>, String)> {
        let (pod, node) = self.placed.remove(key)?;
        if let Some(count) = self.priorities.get_mut(&pod.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&pod.priority);
            }
        }
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

    /// What a node really uses now; None if it is not measured.
    pub fn set_usage(&mut self, node: &str, usage: Option<Usage>) {
        if let Some(&slot) = self.by_name.get(node)
            && let Some(info) = self.slots[slot].as_mut()
        {
            info.set_usage(usage);
        }
    }

    /// Another pod that uses a claim which only one pod at a time may use.
    pub fn holder_of_exclusive(&self, pod: &PodInfo, claim: &str) -> Option<&Arc<PodInfo>> {
        let namespace = &pod.key.namespace;
        if !self.volumes.is_exclusive(&Key::new(&**namespace, claim)) {
            return None;
        }
        let others = self.placed.values().map(|(other, _)| other);
        others
            .filter(|other| other.key.namespace == *namespace && other.key != pod.key)
            .find(|other| self.volumes.claims_of(other).iter().any(|name| name == claim))
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

    /// Per slot, how many pods there meet all of the terms. Counted once, then kept current.
    pub fn matching(&self, terms: &[Arc<PodTerm>]) -> Arc<Tally> {
        self.tallies.matching(terms, || {
            let mut tally = Tally::default();
            for node in self.nodes() {
                let meets = |pod: &&Arc<PodInfo>| terms.iter().all(|term| self.term_matches(term, pod));
                let count = node.pods().filter(meets).count();
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
