//! Objects and who owns them, by UID.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use minik8s_runtime::{Key, Kind, Target};

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// What the collector needs to know of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub kind: Kind,
    pub key: Key,
    pub uid: String,
    pub resource_version: String,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub is_deleted: bool,
}

impl Item {
    fn new(kind: &Kind, meta: &ObjectMeta) -> Self {
        Item {
            kind: kind.clone(),
            key: Key::of_meta(meta),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            is_deleted: meta.deletion_timestamp.is_some(),
        }
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// Foreground deletion is in progress.
    pub fn waits_for_dependents(&self) -> bool {
        self.is_deleted && self.has_finalizer(FOREGROUND)
    }

    pub fn waits_to_orphan(&self) -> bool {
        self.is_deleted && self.has_finalizer(ORPHAN)
    }

    pub fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|o| o.uid == owner && o.block_owner_deletion == Some(true))
    }

    pub fn target(&self) -> Target {
        let uid = Some(self.uid.clone());
        Target { kind: self.kind.clone(), key: self.key.clone(), uid, resource_version: None }
    }

    /// Fails if somebody changed the object since.
    pub fn unchanged(&self) -> Target {
        Target { resource_version: Some(self.resource_version.clone()), ..self.target() }
    }

    /// Whether the collector has anything to look at here.
    fn is_of_interest(&self) -> bool {
        !self.owners.is_empty() || self.waits_for_dependents() || self.waits_to_orphan()
    }
}

#[derive(Default)]
pub struct Graph {
    items: HashMap<String, Item>,
    /// Owner to dependents, also of owners that are not (yet) there.
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    pub fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> Vec<Item> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.items.get(uid).cloned()).collect()
    }

    /// Takes over a change and says which objects are worth a look now.
    pub fn change(&mut self, kind: &Kind, old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> Vec<String> {
        let mut woken = Vec::new();
        let old_uid = old.and_then(|meta| meta.uid.clone());
        let new_uid = new.and_then(|meta| meta.uid.clone());
        if let Some(uid) = old_uid.filter(|uid| Some(uid) != new_uid.as_ref()) {
            self.remove(&uid, &mut woken);
        }
        if let Some(meta) = new {
            self.put(Item::new(kind, meta), &mut woken);
        }
        woken
    }

    fn remove(&mut self, uid: &str, woken: &mut Vec<String>) {
        let Some(item) = self.items.remove(uid) else { return };
        self.unlink(&item);
        woken.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        self.wake_waiting_owners(&item, woken);
    }

    fn put(&mut self, item: Item, woken: &mut Vec<String>) {
        let old = self.items.get(&item.uid).cloned();
        let same = old.as_ref().is_some_and(|old| {
            old.owners == item.owners
                && old.finalizers == item.finalizers
                && old.is_deleted == item.is_deleted
        });
        if !same {
            if let Some(old) = &old {
                self.unlink(old);
                self.wake_waiting_owners(old, woken);
            }
            for owner in &item.owners {
                self.dependents.entry(owner.uid.clone()).or_default().insert(item.uid.clone());
            }
            if item.is_of_interest() {
                woken.push(item.uid.clone());
            }
            if item.waits_for_dependents() {
                woken.extend(self.dependents.get(&item.uid).into_iter().flatten().cloned());
            }
            self.wake_waiting_owners(&item, woken);
        }
        self.items.insert(item.uid.clone(), item);
    }

    fn unlink(&mut self, item: &Item) {
        for owner in &item.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&item.uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    /// Owners on their way out may be a step further.
    fn wake_waiting_owners(&self, item: &Item, woken: &mut Vec<String>) {
        let owners = item.owners.iter().filter_map(|owner| self.items.get(&owner.uid));
        woken.extend(owners.filter(|owner| owner.is_deleted).map(|owner| owner.uid.clone()));
    }
}
