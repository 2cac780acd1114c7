//! The objects of one kind as far as their changes were taken: what is computed from them is computed from one state, while
//! the cache that they come from goes on. Objects are shared with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use minik8s_informer::Change;

/// Ordered by namespace and name, so that what is computed from it does not depend on the order of changes.
#[derive(Debug)]
pub struct Objects<K> {
    known: BTreeMap<(String, String), Arc<K>>,
    complete: bool,
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Objects { known: BTreeMap::new(), complete: false }
    }
}

impl<K: ResourceExt> Objects<K> {
    pub fn take(&mut self, change: Change<K>) {
        match change {
            Change::Applied { new, .. } => drop(self.known.insert(key(&*new), new)),
            Change::Removed(old) => drop(self.known.remove(&key(&*old))),
            Change::Synced => self.complete = true,
            Change::Absent => {}
        }
    }

    /// Whether all objects were seen once.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    pub fn get(&self, key: &(String, String)) -> Option<&K> {
        self.known.get(key).map(AsRef::as_ref)
    }

    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.known.values().map(AsRef::as_ref)
    }
}

pub fn key<K: ResourceExt>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}
