//! What becomes of one volume. Pure.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use minik8s_meta::local_volume::IMAGE_FINALIZER;
use minik8s_runtime::{Action, EventRecord, Kind, Plan, Target};
use serde_json::{Value, json};

use super::Observed;
use crate::annotation::{
    BOUND_BY_CONTROLLER, PROVISIONED_BY, VOLUME_PROTECTION, annotation, finalizers_patch,
};
use crate::claim::claim_of;
use crate::local;

pub(super) fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let volume = &*seen.volume;
    let state = State::of(seen);
    if volume.metadata.deletion_timestamp.is_none()
        && let Some(patch) = finalizers_patch(&volume.metadata, &[VOLUME_PROTECTION], &[])
    {
        plan.act(Action::Patch { target: Target::unchanged(volume), subresource: None, patch });
        return plan;
    }
    match state {
        State::Free => phase(volume, "Available", "", "", &mut plan),
        // The claim's side is about to follow.
        State::Binding => {}
        State::Bound => phase(volume, "Bound", "", "", &mut plan),
        State::Elsewhere => leave(volume, &mut plan),
        State::Released => release(seen, &mut plan),
    }
    if volume.metadata.deletion_timestamp.is_some() {
        let_go(seen, state, &mut plan);
    }
    plan
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Of nobody, or kept for a claim that is not there yet.
    Free,
    Binding,
    Bound,
    /// Its claim has another volume.
    Elsewhere,
    /// Its claim is gone.
    Released,
}

impl State {
    fn of(seen: &Observed) -> State {
        let kept = seen.volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let Some(uid) = kept.and_then(|kept| kept.uid.as_ref()).filter(|uid| !uid.is_empty()) else {
            return State::Free;
        };
        let Some(claim) = seen.claim.as_deref().filter(|claim| claim.metadata.uid.as_ref() == Some(uid))
        else {
            return State::Released;
        };
        match claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).filter(|name| !name.is_empty()) {
            None => State::Binding,
            Some(name) if Some(name) == seen.volume.metadata.name.as_ref() => State::Bound,
            Some(_) => State::Elsewhere,
        }
    }
}

fn phase(volume: &PersistentVolume, phase: &str, reason: &str, message: &str, plan: &mut Plan) {
    let status = volume.status.clone().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if text(&status.phase) == phase && text(&status.reason) == reason && text(&status.message) == message {
        return;
    }
    let unless_empty = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let status = json!({"phase": phase, "reason": unless_empty(reason), "message": unless_empty(message)});
    plan.act(Action::patch_status(volume, status));
}

/// Its claim has chosen another: what was made for that claim goes, what was there before is free again.
fn leave(volume: &PersistentVolume, plan: &mut Plan) {
    if annotation(&volume.metadata, PROVISIONED_BY).is_some() && policy(volume) == "Delete" {
        phase(volume, "Released", "", "", plan);
        if volume.metadata.deletion_timestamp.is_none() {
            plan.act(Action::delete(volume));
        }
        return;
    }
    let ours = annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_some();
    // A name that the user has written stays.
    let reference =
        if ours { Value::Null } else { json!({"uid": Value::Null, "resourceVersion": Value::Null}) };
    let patch = json!({"spec": {"claimRef": reference}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: Value::Null}}});
    plan.act(Action::Patch { target: Target::unchanged(volume), subresource: None, patch });
}

fn release(seen: &Observed, plan: &mut Plan) {
    let volume = &*seen.volume;
    let spec = volume.spec.as_ref();
    if let Some(reference) = spec.and_then(|spec| spec.claim_ref.as_ref()) {
        // A cache can be late; the API is asked before anything is let go.
        plan.act(Action::RequireAbsent { target: claim_target(volume, reference) });
    }
    let before = volume.status.as_ref().and_then(|status| status.phase.clone());
    let provisioned = annotation(&volume.metadata, PROVISIONED_BY);
    match policy(volume) {
        "Delete" if local::node_of(volume).is_some() => {
            phase(volume, "Released", "", "", plan);
            if volume.metadata.deletion_timestamp.is_none() {
                plan.act(Action::delete(volume));
            }
        }
        // A driver's provisioner deletes also what was made by hand.
        "Delete" if provisioned.is_none() && spec.is_none_or(|spec| spec.csi.is_none()) => {
            let message =
                "no deletable volume plugin matched: nobody but its administrator can empty this volume";
            phase(volume, "Failed", "VolumeFailedDelete", message, plan);
            plan.event(EventRecord::warning(volume, "VolumeFailedDelete", message));
        }
        "Recycle" => {
            let message =
                "volumes are not recycled: use the policy Retain or Delete, and a class that makes volumes";
            phase(volume, "Failed", "VolumeFailedRecycle", message, plan);
            plan.event(EventRecord::warning(volume, "VolumeFailedRecycle", message));
        }
        // Retained, or the provisioner's to delete, which goes by the phase.
        _ => phase(volume, "Released", "", "", plan),
    }
    // Asking the API is only worth it for something to do.
    if plan.actions.len() == 1 && before.is_some() {
        plan.actions.clear();
    }
}

fn claim_target(volume: &PersistentVolume, reference: &ObjectReference) -> Target {
    Target {
        kind: Kind::of::<PersistentVolumeClaim>(),
        key: claim_of(volume).unwrap_or_default(),
        uid: reference.uid.clone(),
        resource_version: None,
    }
}

/// Takes away what keeps a deleted volume, when nothing does any more.
fn let_go(seen: &Observed, state: State, plan: &mut Plan) {
    let volume = &*seen.volume;
    let mut remove = Vec::new();
    if matches!(state, State::Free | State::Released) {
        remove.push(VOLUME_PROTECTION);
        if !seen.has_node {
            remove.push(IMAGE_FINALIZER);
        }
    }
    if let Some(patch) = finalizers_patch(&volume.metadata, &[], &remove) {
        if remove.contains(&IMAGE_FINALIZER) {
            let message = "its node has left the cluster: whatever is on that machine's disk stays there";
            plan.event(EventRecord::warning(volume, "VolumeLeftBehind", message));
        }
        // The phase written before has made another version.
        plan.act(Action::patch(volume, patch));
    }
}

fn policy(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}
