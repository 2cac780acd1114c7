//! Counts of pods per node for the terms that pods name, kept current as pods come and go.
//!
//! Most clusters have few distinct terms (one or two per workload), so each change of a pod is checked
//! against all of them; in return no placement ever has to walk over pods.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Namespaces, PodInfo, PodTerm, Slot, WeightedPodTerm};

/// More distinct terms than this and the counts that are asked for on demand start anew.
const MOST_TERMS: usize = 2048;
/// What a required affinity of a placed pod weighs when a newcomer would meet it.
const REQUIRED_WEIGHT: i64 = 1;

/// A number per node slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    counts: Vec<u32>,
    total: u64,
}

impl Tally {
    pub fn at(&self, slot: Slot) -> u32 {
        self.counts.get(slot).copied().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Slots with at least one.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, u32)> {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(slot, count)| (slot, *count))
    }

    pub fn set(&mut self, slot: Slot, count: usize) {
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.total = self.total - u64::from(self.counts[slot]) + u64::from(count);
        self.counts[slot] = count;
    }

    fn raise(&mut self, slot: Slot) {
        self.set(slot, self.at(slot) as usize + 1);
    }

    fn lower(&mut self, slot: Slot) {
        self.set(slot, (self.at(slot) as usize).saturating_sub(1));
    }
}

/// All terms of one pod's affinity: they must be met by the same pods.
type Terms = Box<[Arc<PodTerm>]>;

#[derive(Default)]
pub struct Tallies {
    /// Pods that meet some terms at once; only those that somebody asked for. Behind a lock because asking
    /// is reading to everybody else.
    matching: Mutex<HashMap<Terms, Arc<Tally>>>,
    /// Pods that carry a term.
    forbidding: HashMap<Arc<PodTerm>, Tally>,
    preferring: HashMap<Arc<WeightedPodTerm>, Tally>,
}

impl Tallies {
    pub(super) fn add(&mut self, pod: &PodInfo, slot: Slot, namespaces: &Namespaces) {
        self.change(pod, slot, namespaces, Tally::raise);
    }

    pub(super) fn remove(&mut self, pod: &PodInfo, slot: Slot, namespaces: &Namespaces) {
        self.change(pod, slot, namespaces, Tally::lower);
        if !pod.anti_affinity.is_empty() {
            self.forbidding.retain(|_, tally| !tally.is_empty());
        }
        if !pod.affinity.is_empty() || !pod.preferred_pods.is_empty() {
            self.preferring.retain(|_, tally| !tally.is_empty());
        }
    }

    fn change(&mut self, pod: &PodInfo, slot: Slot, namespaces: &Namespaces, change: fn(&mut Tally, Slot)) {
        for (terms, tally) in self.matching.get_mut() {
            if terms.iter().all(|term| matches(term, pod, namespaces)) {
                change(Arc::make_mut(tally), slot);
            }
        }
        for term in &pod.anti_affinity {
            change(self.forbidding.entry(term.clone()).or_default(), slot);
        }
        for term in &pod.affinity {
            let weighted = Arc::new(WeightedPodTerm { weight: REQUIRED_WEIGHT, term: term.clone() });
            change(self.preferring.entry(weighted).or_default(), slot);
        }
        for term in &pod.preferred_pods {
            change(self.preferring.entry(term.clone()).or_default(), slot);
        }
    }

    pub(super) fn matching(&self, terms: &[Arc<PodTerm>], count: impl FnOnce() -> Tally) -> Arc<Tally> {
        let mut known = self.matching.lock();
        if let Some(tally) = known.get(terms) {
            return tally.clone();
        }
        if known.len() >= MOST_TERMS {
            known.clear();
        }
        let tally = Arc::new(count());
        known.insert(terms.into(), tally.clone());
        tally
    }

    pub(super) fn forget_counts(&mut self) {
        self.matching.get_mut().clear();
    }

    pub(super) fn anti_affinity_terms(&self) -> impl Iterator<Item = (&Arc<PodTerm>, &Tally)> {
        self.forbidding.iter()
    }

    pub(super) fn affinity_terms(&self) -> impl Iterator<Item = (&Arc<WeightedPodTerm>, &Tally)> {
        self.preferring.iter()
    }
}

pub(super) fn matches(term: &PodTerm, pod: &PodInfo, namespaces: &Namespaces) -> bool {
    let labels = || namespaces.get(&pod.key.namespace).and_then(|n| n.metadata.labels.as_ref());
    term.admits(pod)
        && term.selector.matches(pod.labels())
        && term.selects_namespace(&pod.key.namespace, labels)
}
