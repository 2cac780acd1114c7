//! Who belongs to whom: adopting what a selector matches, releasing what it no longer does.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use minik8s_runtime::{Action, Cache, Object, Selector, Target, owner_reference};
use serde_json::json;

/// The dependents of an owner, and the actions that make ownership as it should be.
pub struct Claimed<K> {
    pub mine: Vec<Arc<K>>,
    pub actions: Vec<Action>,
}

/// What the owner has and what it could adopt.
pub struct Candidates<K> {
    pub owned: Vec<Arc<K>>,
    pub orphans: Vec<Arc<K>>,
}

impl<K: Object> Candidates<K> {
    pub fn of<O: Object>(cache: &Cache<K>, owner: &O, selector: &Selector) -> Self {
        let meta = owner.meta();
        let mut orphans = cache.orphans_in(meta.namespace.as_deref().unwrap_or(""));
        orphans.retain(|orphan| selector.matches_object(orphan.meta()));
        Candidates { owned: cache.controlled_by(meta.uid.as_deref().unwrap_or("")), orphans }
    }
}

/// An owner that is being deleted adopts nobody.
pub fn claim<O: Object, K: Object>(owner: &O, selector: &Selector, candidates: &Candidates<K>) -> Claimed<K> {
    let mut claimed = Claimed { mine: Vec::new(), actions: Vec::new() };
    let is_going = owner.meta().deletion_timestamp.is_some();
    for object in &candidates.owned {
        if selector.matches_object(object.meta()) || is_going {
            claimed.mine.push(object.clone());
        } else {
            claimed.actions.push(release(owner, &**object));
        }
    }
    for object in &candidates.orphans {
        let fits = selector.matches_object(object.meta()) && object.meta().deletion_timestamp.is_none();
        if fits && !is_going {
            claimed.actions.push(adopt(owner, &**object));
            claimed.mine.push(object.clone());
        }
    }
    claimed
}

/// Lists are replaced as a whole by a merge patch, so nobody else may have changed the object.
fn adopt<O: Object, K: Object>(owner: &O, object: &K) -> Action {
    let mut references = object.meta().owner_references.clone().unwrap_or_default();
    references.push(owner_reference(owner));
    set_owners(object, &references)
}

fn release<O: Object, K: Object>(owner: &O, object: &K) -> Action {
    let mut references = object.meta().owner_references.clone().unwrap_or_default();
    references.retain(|reference| Some(&reference.uid) != owner.meta().uid.as_ref());
    set_owners(object, &references)
}

fn set_owners<K: Object>(object: &K, references: &[OwnerReference]) -> Action {
    let patch = json!({"metadata": {"ownerReferences": references}});
    Action::Patch { target: Target::unchanged(object), subresource: None, patch }
}
