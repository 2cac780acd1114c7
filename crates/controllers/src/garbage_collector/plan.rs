//! What to do about one object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use minik8s_runtime::{Action, Plan, Propagation, Target};
use serde_json::json;

use super::graph::{FOREGROUND, Item, ORPHAN};
use super::{Observed, OwnerState};

pub(super) fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let item = &seen.item;
    if item.waits_to_orphan() {
        orphan_dependents(seen, &mut plan);
    } else if item.waits_for_dependents() {
        let blocked = seen.dependents.iter().any(|dependent| dependent.blocks(&item.uid));
        if !blocked {
            plan.act(without_finalizer(item, FOREGROUND));
        }
    } else if !item.is_deleted && !item.owners.is_empty() {
        judge(seen, &mut plan);
    }
    plan
}

/// Cuts all dependents loose, then lets the owner go.
fn orphan_dependents(seen: &Observed, plan: &mut Plan) {
    for dependent in &seen.dependents {
        plan.act(without_owners(dependent, |owner| owner.uid == seen.item.uid));
    }
    if seen.dependents.is_empty() {
        plan.act(without_finalizer(&seen.item, ORPHAN));
    }
}

/// An object with owners that lives: does it still have a reason to?
fn judge(seen: &Observed, plan: &mut Plan) {
    let item = &seen.item;
    let has = |test: fn(&OwnerState) -> bool| seen.owners.iter().any(|(_, state)| test(state));
    let solid = has(|state| matches!(state, OwnerState::Solid | OwnerState::Unknown));
    let waiting = has(|state| matches!(state, OwnerState::WaitsForDependents));
    let missing = has(|state| matches!(state, OwnerState::Missing(..)));
    if solid && !waiting && !missing {
        return;
    }
    for (reference, state) in &seen.owners {
        if let OwnerState::Missing(kind, key) = state {
            let uid = Some(reference.uid.clone());
            let target = Target { kind: kind.clone(), key: key.clone(), uid, resource_version: None };
            plan.act(Action::RequireAbsent { target });
        }
    }
    if solid {
        let lost: Vec<&str> = seen
            .owners
            .iter()
            .filter(|(_, state)| matches!(state, OwnerState::Missing(..) | OwnerState::WaitsForDependents))
            .map(|(reference, _)| reference.uid.as_str())
            .collect();
        plan.act(without_owners(item, |owner| lost.contains(&owner.uid.as_str())));
        return;
    }
    if waiting && !seen.dependents.is_empty() {
        // Dependents that themselves wait would wait for us for ever if we blocked our owner.
        if seen.dependents.iter().any(Item::waits_for_dependents) && item.owners.iter().any(blocks) {
            plan.act(unblocked(item));
            return;
        }
        plan.act(delete(item, Propagation::Foreground));
        return;
    }
    let policy = if item.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if item.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    plan.act(delete(item, policy));
}

fn blocks(owner: &OwnerReference) -> bool {
    owner.block_owner_deletion == Some(true)
}

/// Only in the state that was judged: an owner may have been added since.
fn delete(item: &Item, policy: Propagation) -> Action {
    Action::Delete { target: item.unchanged(), propagation: Some(policy), grace_seconds: None, told: None }
}

fn without_finalizer(item: &Item, name: &str) -> Action {
    let rest: Vec<&String> = item.finalizers.iter().filter(|finalizer| *finalizer != name).collect();
    let patch = json!({"metadata": {"finalizers": rest}});
    Action::Patch { target: item.unchanged(), subresource: None, patch }
}

fn without_owners(item: &Item, drop: impl Fn(&OwnerReference) -> bool) -> Action {
    let rest: Vec<&OwnerReference> = item.owners.iter().filter(|owner| !drop(owner)).collect();
    let patch = json!({"metadata": {"ownerReferences": rest}});
    Action::Patch { target: item.unchanged(), subresource: None, patch }
}

fn unblocked(item: &Item) -> Action {
    let mut owners = item.owners.clone();
    owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
    let patch = json!({"metadata": {"ownerReferences": owners}});
    Action::Patch { target: item.unchanged(), subresource: None, patch }
}
