//! What becomes of one claim. Pure.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use minik8s_meta::local_volume;
use minik8s_runtime::{Action, EventRecord, Kind, Plan, Target, key_of};
use serde_json::{Value, json};

use super::Observed;
use crate::annotation::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, CLAIM_PROTECTION, SELECTED_NODE, STORAGE_PROVISIONER,
    STORAGE_PROVISIONER_BETA, annotation, finalizers_patch,
};
use crate::fit::{Misfit, Wanted, attributes_class, capacity, is_for};
use crate::{claim_status, local, nfs, snapshot};

/// Volumes of such a class are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

pub(super) fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let claim = &*seen.claim;
    if claim.metadata.deletion_timestamp.is_some() {
        let removal = finalizers_patch(&claim.metadata, &[], &[CLAIM_PROTECTION]);
        if let Some(patch) = removal.filter(|_| seen.users.is_empty()) {
            plan.act(Action::Patch { target: Target::unchanged(claim), subresource: None, patch });
        }
        return plan;
    }
    if let Some(patch) = finalizers_patch(&claim.metadata, &[CLAIM_PROTECTION], &[]) {
        plan.act(Action::Patch { target: Target::unchanged(claim), subresource: None, patch });
        // The rest with the version that this makes.
        return plan;
    }
    match volume_name(claim) {
        Some(name) if is_bound(claim) => bound(seen, name, &mut plan),
        Some(name) => named(seen, name, &mut plan),
        None => unbound(seen, &mut plan),
    }
    plan
}

pub(super) fn class_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or("")
}

/// Not even the empty one, which means that none is wanted.
fn names_no_class(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_none())
}

pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_name(claim).is_some() && annotation(&claim.metadata, BIND_COMPLETED).is_some()
}

/// The claim of the same namespace whose content a claim starts with.
pub(super) fn source_claim(claim: &PersistentVolumeClaim) -> Option<&str> {
    let source = claim.spec.as_ref()?.data_source.as_ref()?;
    (source.kind == "PersistentVolumeClaim").then_some(source.name.as_str())
}

/// A binding that was made stays, or the claim is lost: its data is nowhere else.
fn bound(seen: &Observed, name: &str, plan: &mut Plan) {
    let claim = &*seen.claim;
    let volume = seen.volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name));
    let Some(volume) = volume else {
        let message =
            format!("Bound claim has lost its PersistentVolume {name}. Data on the volume is lost!");
        return lost(claim, "ClaimLost", message, plan);
    };
    match volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
        Some(kept) if !is_for(kept, claim) => {
            lost(
                claim,
                "ClaimMisbound",
                format!("Two claims are bound to the volume {name}, this one is bound incorrectly"),
                plan,
            );
        }
        _ => {
            bind(claim, volume, plan);
            claim_status::grow(claim, volume, seen.class.as_deref(), plan);
            claim_status::refuse_modification(claim, volume, plan);
        }
    }
}

fn lost(claim: &PersistentVolumeClaim, reason: &'static str, message: String, plan: &mut Plan) {
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Lost") {
        plan.act(Action::patch_status(claim, json!({"phase": "Lost"})));
    }
    plan.event(EventRecord::warning(claim, reason, message));
}

/// The user wants this very volume.
fn named(seen: &Observed, name: &str, plan: &mut Plan) {
    let claim = &*seen.claim;
    let Some(volume) = seen.volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name))
    else {
        let message =
            format!("the volume {name:?} that the claim names is not there: create it, or name another");
        return plan.event(EventRecord::warning(claim, "FailedBinding", message));
    };
    match Wanted::named(claim).misfit(volume) {
        None => bind(claim, volume, plan),
        Some(Misfit::Taken(other)) => {
            let message = format!("volume {name:?} already bound to a different claim: {other}");
            plan.event(EventRecord::warning(claim, "FailedBinding", message));
        }
        Some(misfit) => {
            let message = format!("Cannot bind to requested volume {name:?}: {misfit}");
            plan.event(EventRecord::warning(claim, "VolumeMismatch", message));
        }
    }
}

fn unbound(seen: &Observed, plan: &mut Plan) {
    let claim = &*seen.claim;
    // Made before there was a default class.
    if let Some(class) = seen.default_class.as_ref().filter(|_| names_no_class(claim)) {
        let patch = json!({"spec": {"storageClassName": class}});
        return plan.act(Action::Patch { target: Target::unchanged(claim), subresource: None, patch });
    }
    // A volume that names the claim is meant for it, whatever else there is.
    let kept = |volume: &&&PersistentVolume| {
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        reference.is_some_and(|reference| is_for(reference, claim))
    };
    let volumes: Vec<&PersistentVolume> = seen.volumes.iter().map(|volume| &**volume).collect();
    let wanted = Wanted::kept(claim);
    if let Some(volume) = volumes.iter().filter(kept).find(|volume| wanted.misfit(volume).is_none()) {
        return bind(claim, volume, plan);
    }
    let selected = annotation(&claim.metadata, SELECTED_NODE);
    // Where a snapshot is, is where its volume is made: nobody has to choose.
    let waits = seen.class.as_ref().is_some_and(|class| waits_for_consumer(class) && !has_place(seen, class));
    if waits && selected.is_none() {
        let message = "waiting for first consumer to be created before binding";
        return plan.event(EventRecord::normal(claim, "WaitForFirstConsumer", message));
    }
    let node = match selected.filter(|_| waits) {
        Some(name) => match seen.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name)) {
            Some(node) => Some(&**node),
            None => return choose_again(claim, &format!("the node {name} is not there"), plan),
        },
        None => None,
    };
    // What shall start with the content of another volume must be made.
    let is_empty =
        claim.spec.as_ref().is_some_and(|spec| spec.data_source_ref.is_none() && spec.data_source.is_none());
    match smallest(claim, &volumes, node).filter(|_| is_empty) {
        Some(volume) => bind(claim, volume, plan),
        None => provision(seen, node, plan),
    }
}

pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// The smallest volume that does.
fn smallest<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &[&'a PersistentVolume],
    node: Option<&Node>,
) -> Option<&'a PersistentVolume> {
    let wanted = Wanted::new(claim, node);
    let fitting = volumes.iter().copied().filter(|volume| wanted.misfit(volume).is_none());
    fitting.min_by_key(|volume| capacity(volume))
}

fn provision(seen: &Observed, node: Option<&Node>, plan: &mut Plan) {
    let claim = &*seen.claim;
    let name = class_name(claim);
    let Some(class) = seen.class.as_deref() else {
        let (reason, message) = match name {
            "" => (
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set".to_owned(),
            ),
            name => ("ProvisioningFailed", format!("storageclass.storage.k8s.io {name:?} not found")),
        };
        return plan.event(EventRecord::warning(claim, reason, without_volume(seen, &message)));
    };
    if let Some(attributes) = attributes_class(claim).filter(|_| is_built_in(&class.provisioner)) {
        let message = format!(
            "class {name:?}: its volumes have nothing that the VolumeAttributesClass {attributes:?} could set: leave \
             volumeAttributesClassName away"
        );
        return plan.event(EventRecord::warning(claim, "ProvisioningFailed", message));
    }
    let made = match class.provisioner.as_str() {
        local_volume::DRIVER => {
            let (nodes, capacities) = (&seen.nodes, &seen.capacities);
            local::volume(claim, class, &local::Places { node, nodes, capacities, source: source(seen) })
        }
        nfs::PROVISIONER => nfs::volume(claim, class),
        NO_PROVISIONER => {
            let why = format!("no volume of the class {name:?} does, and it makes none");
            return match node {
                Some(_) => choose_again(claim, &without_volume(seen, &why), plan),
                None => plan.event(EventRecord::warning(claim, "FailedBinding", without_volume(seen, &why))),
            };
        }
        other => return leave_to(claim, other, plan),
    };
    match made {
        Ok(volume) => {
            let message = format!("Successfully provisioned volume {}", key_of(&volume).name);
            plan.event(EventRecord::normal(claim, "ProvisioningSucceeded", message));
            plan.act(Action::create(&volume));
        }
        // Since the scheduler looked, others have taken the room.
        Err(error @ local::Unmade::NoRoom { .. }) if node.is_some() => {
            choose_again(claim, &format!("class {name:?}: {error}"), plan);
        }
        Err(error) => {
            plan.event(EventRecord::warning(claim, "ProvisioningFailed", format!("class {name:?}: {error}")));
        }
    }
}

/// Whether volumes are made here, and not by a driver.
fn is_built_in(provisioner: &str) -> bool {
    matches!(provisioner, local_volume::DRIVER | nfs::PROVISIONER)
}

/// Whether the claim starts with a snapshot that is on one node.
fn has_place(seen: &Observed, class: &StorageClass) -> bool {
    class.provisioner == local_volume::DRIVER
        && seen.snapshot.as_ref().is_some_and(|content| local::Source::snapshot(content).is_ok())
}

/// What to start with; an error while it cannot be had.
fn source(seen: &Observed) -> Result<Option<local::Source>, local::Unmade> {
    let Some(wanted) =
        seen.claim.spec.as_ref().and_then(|spec| spec.data_source_ref.as_ref().map(|s| (&s.kind, &s.name)))
    else {
        return Ok(None);
    };
    if snapshot::source_of(&seen.claim).is_some() {
        let content = seen.snapshot.as_deref();
        let content = content.ok_or_else(|| local::Unmade::SnapshotUnready(wanted.1.clone()))?;
        return local::Source::snapshot(content).map(Some);
    }
    if source_claim(&seen.claim).is_none() {
        return Err(local::Unmade::SourceKind(wanted.0.clone()));
    }
    let bound = seen.source.as_deref().filter(|source| is_bound(source));
    match bound.and(seen.source_volume.as_deref()) {
        Some(volume) => local::Source::volume(volume).map(Some),
        None => Err(local::Unmade::SourceUnbound(wanted.1.clone())),
    }
}

/// How near the volumes are that there are, so that one who waits knows what is missing.
fn without_volume(seen: &Observed, message: &str) -> String {
    let wanted = Wanted::new(&seen.claim, None);
    let of_class =
        |misfit: &Misfit| !matches!(misfit, Misfit::Class { .. } | Misfit::Taken(_) | Misfit::Deleted);
    let near: Vec<_> = seen
        .volumes
        .iter()
        .filter_map(|volume| {
            Some((volume.metadata.name.as_deref()?, wanted.misfit(volume).filter(of_class)?))
        })
        .map(|(name, misfit)| format!("{name}: {misfit}"))
        .collect();
    match near.is_empty() {
        true => message.to_owned(),
        false => format!("{message} ({})", near.join("; ")),
    }
}

/// The scheduler's choice has led nowhere: it chooses again.
fn choose_again(claim: &PersistentVolumeClaim, why: &str, plan: &mut Plan) {
    plan.event(EventRecord::warning(claim, "ProvisioningFailed", why));
    let patch = json!({"metadata": {"annotations": {SELECTED_NODE: Value::Null}}});
    plan.act(Action::Patch { target: Target::unchanged(claim), subresource: None, patch });
}

/// Asks the provisioner of another project.
fn leave_to(claim: &PersistentVolumeClaim, provisioner: &str, plan: &mut Plan) {
    if annotation(&claim.metadata, STORAGE_PROVISIONER) != Some(provisioner) {
        let names = json!({STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER_BETA: provisioner});
        plan.act(Action::patch(claim, json!({"metadata": {"annotations": names}})));
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
         system administrator. If volume creation is delayed, please verify that the provisioner is running and \
         correctly registered."
    );
    plan.event(EventRecord::normal(claim, "ExternalProvisioning", message));
}

/// Writes what is missing of a binding, the volume's side first.
fn bind(claim: &PersistentVolumeClaim, volume: &PersistentVolume, plan: &mut Plan) {
    keep(claim, volume, plan);
    let name = volume.metadata.name.as_deref().unwrap_or("");
    if !is_bound(claim) {
        let mut annotations = json!({BIND_COMPLETED: "yes"});
        if volume_name(claim).is_none() {
            annotations[BOUND_BY_CONTROLLER] = "yes".into();
        }
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}});
        plan.act(Action::patch(claim, patch));
    }
    claim_status::bound(claim, volume, plan);
}

/// The volume's side of a binding, if nobody has changed the volume meanwhile.
pub(super) fn keep(claim: &PersistentVolumeClaim, volume: &PersistentVolume, plan: &mut Plan) {
    let kept = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if kept.and_then(|kept| kept.uid.as_ref()) != claim.metadata.uid.as_ref() {
        let mut patch = json!({"spec": {"claimRef": {
            "apiVersion": "v1",
            "kind": Kind::of::<PersistentVolumeClaim>().kind,
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
        }}});
        if kept.is_none() {
            patch["metadata"] = json!({"annotations": {BOUND_BY_CONTROLLER: "yes"}});
        }
        plan.act(Action::Patch { target: Target::unchanged(volume), subresource: None, patch });
    }
}
