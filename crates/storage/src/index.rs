//! Which volumes are kept for a claim, and which are free, by class and size: so that a claim is looked after without a look
//! at every volume.
//!
//! It holds names only. Whoever takes one reads the volume from the cache, which may know more already; what has changed
//! meanwhile wakes the claim again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use k8s_openapi::api::core::v1::PersistentVolume;
use minik8s_meta::Quantity;
use minik8s_runtime::{Key, key_of};
use parking_lot::RwLock;

use crate::claim::claim_of;
use crate::fit::{capacity, class_name};
use crate::local::spread;

/// Volumes of one size. The number scatters their names, so that claims which are bound at the same time begin at different ones.
type Equal = BTreeSet<(usize, String)>;

#[derive(Default)]
pub struct VolumeIndex(RwLock<Names>);

#[derive(Default)]
struct Names {
    kept: HashMap<Key, BTreeSet<String>>,
    free: HashMap<String, BTreeMap<Quantity, Equal>>,
}

impl VolumeIndex {
    /// As a listener of the cache hears it.
    pub fn change(&self, old: Option<&PersistentVolume>, new: Option<&PersistentVolume>) {
        let mut names = self.0.write();
        old.into_iter().for_each(|volume| names.remove(volume));
        new.into_iter().for_each(|volume| names.insert(volume));
    }

    /// The volumes whose `claimRef` has this name.
    pub fn kept_for(&self, claim: &Key) -> Vec<String> {
        self.0.read().kept.get(claim).into_iter().flatten().cloned().collect()
    }

    /// Names of free volumes of a class that are large enough, the smallest first, until `look` has found one.
    pub fn find_free<T>(
        &self,
        class: &str,
        size: Quantity,
        claim_uid: &str,
        mut look: impl FnMut(&str) -> ControlFlow<T>,
    ) -> Option<T> {
        let names = self.0.read();
        let begin = (spread(claim_uid), String::new());
        for equal in names.free.get(class)?.range(size..).map(|(_, equal)| equal) {
            for (_, name) in equal.range(&begin..).chain(equal.range(..&begin)) {
                if let ControlFlow::Break(found) = look(name) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Free volumes of a class, the smallest first.
    pub fn free_of(&self, class: &str) -> Vec<String> {
        let names = self.0.read();
        let all = names.free.get(class).into_iter().flat_map(BTreeMap::values).flatten();
        all.map(|(_, name)| name.clone()).collect()
    }

    /// Some of them, the largest first.
    pub fn largest_free_of(&self, class: &str, most: usize) -> Vec<String> {
        let names = self.0.read();
        let all = names.free.get(class).into_iter().flat_map(|sizes| sizes.values().rev()).flatten();
        all.take(most).map(|(_, name)| name.clone()).collect()
    }
}

impl Names {
    fn insert(&mut self, volume: &PersistentVolume) {
        let name = key_of(volume).name;
        if let Some(claim) = claim_of(volume) {
            self.kept.entry(claim).or_default().insert(name);
        } else if is_free(volume) {
            let sizes = self.free.entry(class_name(volume).to_owned()).or_default();
            sizes.entry(capacity(volume)).or_default().insert((spread(&name), name));
        }
    }

    fn remove(&mut self, volume: &PersistentVolume) {
        let name = key_of(volume).name;
        if let Some(claim) = claim_of(volume) {
            let Some(names) = self.kept.get_mut(&claim) else { return };
            names.remove(&name);
            if names.is_empty() {
                self.kept.remove(&claim);
            }
        } else if is_free(volume) {
            let Some(sizes) = self.free.get_mut(class_name(volume)) else { return };
            let Some(equal) = sizes.get_mut(&capacity(volume)) else { return };
            equal.remove(&(spread(&name), name));
            if equal.is_empty() {
                sizes.remove(&capacity(volume));
            }
        }
    }
}

/// Nobody has it, and it stays.
pub fn is_free(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none())
        && volume.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(name: &str, size: &str, claim: Value) -> PersistentVolume {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
            "storageClassName": "c", "claimRef": claim}}))
        .unwrap()
    }

    #[test]
    fn volumes_are_found_by_claim_and_by_size() {
        let index = VolumeIndex::default();
        let claim = json!({"namespace": "ns", "name": "x"});
        let all = [
            volume("large", "9Gi", Value::Null),
            volume("small", "1Gi", Value::Null),
            volume("fit", "5120Mi", Value::Null),
            volume("kept", "5Gi", claim.clone()),
        ];
        all.iter().for_each(|volume| index.change(None, Some(volume)));
        let seen = |size: &str| {
            let mut seen = Vec::new();
            let size = Quantity::from_json(&json!(size)).unwrap();
            index.find_free("c", size, "uid", |name| -> ControlFlow<()> {
                seen.push(name.to_owned());
                ControlFlow::Continue(())
            });
            seen
        };
        assert_eq!(seen("5Gi"), ["fit", "large"]);
        assert_eq!(seen("10Gi"), [""; 0]);
        assert_eq!(index.free_of("c"), ["small", "fit", "large"]);
        assert_eq!(index.largest_free_of("c", 2), ["large", "fit"]);
        assert_eq!(index.kept_for(&Key::new("ns", "x")), ["kept"]);
        // A volume is taken, and another goes.
        index.change(Some(&all[2]), Some(&volume("fit", "5Gi", claim)));
        index.change(Some(&all[0]), None);
        assert_eq!((seen("1Gi"), index.kept_for(&Key::new("ns", "x")).len()), (vec!["small".to_owned()], 2));
    }
}
