//! What becomes of one snapshot. Pure.

use k8s_openapi::api::core::v1::CSIPersistentVolumeSource;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::snapshot::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use minik8s_meta::{Quantity, QuantityFormat};
use minik8s_runtime::{Action, EventRecord, Kind, Plan, Target};
use serde_json::{Value, json};

use super::names::{
    AS_SOURCE, BEING_DELETED, BOUND, CLAIM, CONTENT, DELETION_SECRET, DELETION_SECRET_NAMESPACE, IS_DEFAULT,
    content_name, has_finalizer, is_of, is_ready, secret,
};
use super::{Observed, bound_name};
use crate::annotation::{annotation, finalizers_patch};

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let snapshot = &*seen.snapshot;
    if snapshot.metadata.deletion_timestamp.is_some() {
        let_go(seen, &mut plan);
        return plan;
    }
    if let Some(patch) = finalizers_patch(&snapshot.metadata, &[AS_SOURCE, BOUND], &[]) {
        plan.act(Action::Patch { target: Target::unchanged(snapshot), subresource: None, patch });
        // The rest with the version that this makes.
        return plan;
    }
    let found = match snapshot.spec.source.volume_snapshot_content_name {
        Some(_) => named(seen, &mut plan),
        None => made(seen, &mut plan),
    };
    match found {
        Ok(Some(content)) => {
            tell(snapshot, content, &mut plan);
            if is_ready(content) {
                free_claim(seen, &mut plan);
            }
        }
        // On its way.
        Ok(None) => {}
        Err((reason, message)) => refuse(snapshot, reason, message, now, &mut plan),
    }
    plan
}

type Refusal = (&'static str, String);

/// The user wants this very content, which must want this very snapshot.
fn named<'a>(seen: &'a Observed, plan: &mut Plan) -> Result<Option<&'a VolumeSnapshotContent>, Refusal> {
    let snapshot = &*seen.snapshot;
    let name = snapshot.spec.source.volume_snapshot_content_name.as_deref().unwrap_or_default();
    let Some(content) = seen.content.as_deref() else {
        let message =
            format!("the VolumeSnapshotContent {name:?} that the snapshot names is not there: create it");
        return Err(("SnapshotContentMissing", message));
    };
    if is_of(content, snapshot) {
        return Ok(Some(content));
    }
    let kept = &content.spec.volume_snapshot_ref;
    let is_meant = kept.namespace == snapshot.metadata.namespace && kept.name == snapshot.metadata.name;
    if !is_meant || kept.uid.as_ref().is_some_and(|uid| !uid.is_empty()) {
        let message = format!(
            "the VolumeSnapshotContent {name:?} is kept for another snapshot (its volumeSnapshotRef says which)"
        );
        return Err(("SnapshotContentMisbound", message));
    }
    if content.metadata.deletion_timestamp.is_none() {
        let patch = json!({"spec": {"volumeSnapshotRef": {"uid": snapshot.metadata.uid}}});
        plan.act(Action::Patch { target: Target::unchanged(content), subresource: None, patch });
    }
    Ok(None)
}

/// The content that is made for the snapshot of a claim.
fn made<'a>(seen: &'a Observed, plan: &mut Plan) -> Result<Option<&'a VolumeSnapshotContent>, Refusal> {
    match seen.content.as_deref() {
        Some(content) if is_of(content, &seen.snapshot) => Ok(Some(content)),
        Some(content) => {
            let name = content.metadata.name.as_deref().unwrap_or_default();
            Err((
                "SnapshotContentMisbound",
                format!("the VolumeSnapshotContent {name:?} is of another snapshot"),
            ))
        }
        None => match bound_name(&seen.snapshot) {
            // Another one would have other data.
            Some(name) => Err((
                "SnapshotContentMissing",
                format!("VolumeSnapshotContent {name:?} is missing: its data is lost"),
            )),
            None => make(seen, plan).map(|()| None),
        },
    }
}

fn make(seen: &Observed, plan: &mut Plan) -> Result<(), Refusal> {
    let failed = |message: String| ("SnapshotContentCreationFailed", message);
    let snapshot = &*seen.snapshot;
    let name = snapshot.spec.source.persistent_volume_claim_name.as_deref().unwrap_or_default();
    let claim = seen.claim.as_deref().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    let claim =
        claim.ok_or_else(|| failed(format!("the claim {name:?} is not there, or is being deleted")))?;
    let volume = seen.volume.as_deref().and_then(|volume| volume.spec.as_ref());
    let volume = volume.ok_or_else(|| failed(format!("the claim {name:?} is not bound to a volume yet")))?;
    let csi = volume.csi.as_ref().ok_or_else(|| {
        failed(format!(
            "the volume of {name:?} is not of a CSI driver or of a class of minik8s: it has no snapshots"
        ))
    })?;
    let class = class(seen, &csi.driver).map_err(failed)?;
    if let Some(patch) = finalizers_patch(&claim.metadata, &[CLAIM], &[]) {
        plan.act(Action::Patch { target: Target::unchanged(claim), subresource: None, patch });
    }
    plan.act(Action::create(&content(snapshot, class, csi, volume.volume_mode.as_deref())));
    Ok(())
}

/// The class that the snapshot names, or the default one of the driver.
fn class<'a>(seen: &'a Observed, driver: &str) -> Result<&'a VolumeSnapshotClass, String> {
    let all = seen.classes.iter().map(|class| &**class);
    if let Some(name) = seen.snapshot.spec.volume_snapshot_class_name.as_deref() {
        let found = all.clone().find(|class| class.metadata.name.as_deref() == Some(name));
        let found = found.ok_or_else(|| format!("volumesnapshotclass {name:?} not found"))?;
        return match found.driver == driver {
            true => Ok(found),
            false => {
                Err(format!("the class {name:?} is of the driver {}, the volume of {driver}", found.driver))
            }
        };
    }
    let is_default = |class: &&VolumeSnapshotClass| {
        class.driver == driver && annotation(&class.metadata, IS_DEFAULT) == Some("true")
    };
    let defaults: Vec<&VolumeSnapshotClass> = all.filter(is_default).collect();
    match defaults[..] {
        [one] => Ok(one),
        [] => Err(format!(
            "no default volumesnapshotclass of the driver {driver}: name one in volumeSnapshotClassName"
        )),
        _ => Err(format!(
            "{} default volumesnapshotclasses of the driver {driver}: name one in volumeSnapshotClassName",
            defaults.len()
        )),
    }
}

fn content(
    snapshot: &VolumeSnapshot,
    class: &VolumeSnapshotClass,
    csi: &CSIPersistentVolumeSource,
    mode: Option<&str>,
) -> VolumeSnapshotContent {
    let annotations = secret(class, snapshot)
        .map(|(name, namespace)| json!({DELETION_SECRET: name, DELETION_SECRET_NAMESPACE: namespace}));
    let object = json!({
        "metadata": {"name": content_name(snapshot), "finalizers": [CONTENT], "annotations": annotations},
        "spec": {
            "volumeSnapshotRef": {
                "apiVersion": snapshot.api_version,
                "kind": Kind::of::<VolumeSnapshot>().kind,
                "namespace": snapshot.metadata.namespace,
                "name": snapshot.metadata.name,
                "uid": snapshot.metadata.uid,
            },
            "deletionPolicy": class.deletion_policy,
            "driver": csi.driver,
            "volumeSnapshotClassName": class.metadata.name,
            "source": {"volumeHandle": csi.volume_handle},
            "sourceVolumeMode": mode.unwrap_or("Filesystem"),
        },
    });
    serde_json::from_value(object).expect("a content made of known fields")
}

/// What the content says is what the snapshot says.
fn tell(snapshot: &VolumeSnapshot, content: &VolumeSnapshotContent, plan: &mut Plan) {
    let told = content.status.clone().unwrap_or_default();
    let taken = told.creation_time.and_then(|time| Timestamp::from_nanosecond(time.into()).ok());
    let size = told.restore_size.map(|size| Quantity::new(size, QuantityFormat::BinarySi).to_string());
    let status = json!({
        "boundVolumeSnapshotContentName": content.metadata.name,
        "creationTime": taken.and_then(|time| time.round(k8s_openapi::jiff::Unit::Second).ok()).map(|time| time.to_string()),
        "readyToUse": told.ready_to_use.unwrap_or(false),
        "restoreSize": size,
        "error": told.error,
    });
    write(snapshot, status, plan);
}

fn refuse(snapshot: &VolumeSnapshot, reason: &'static str, message: String, now: Timestamp, plan: &mut Plan) {
    let known = snapshot.status.as_ref().and_then(|status| status.error.as_ref());
    let is_known = known.and_then(|error| error.message.as_deref()) == Some(message.as_str());
    plan.event(EventRecord::warning(snapshot, reason, message.clone()));
    if !is_known {
        let time = now.round(k8s_openapi::jiff::Unit::Second).unwrap_or(now).to_string();
        write(snapshot, json!({"readyToUse": false, "error": {"time": time, "message": message}}), plan);
    }
}

/// If anything of it is news.
fn write(snapshot: &VolumeSnapshot, status: Value, plan: &mut Plan) {
    let known = serde_json::to_value(&snapshot.status).unwrap_or_default();
    let is_news = |(field, value): (&String, &Value)| known[field.as_str()] != *value;
    if status.as_object().into_iter().flatten().any(is_news) {
        plan.act(Action::patch_status(snapshot, status));
    }
}

/// The claim may go, when no snapshot of it is being made any more.
fn free_claim(seen: &Observed, plan: &mut Plan) {
    let Some(claim) = seen.claim.as_deref().filter(|_| !seen.has_siblings) else { return };
    if has_finalizer(&claim.metadata, CLAIM)
        && let Some(patch) = finalizers_patch(&claim.metadata, &[], &[CLAIM])
    {
        plan.act(Action::Patch { target: Target::unchanged(claim), subresource: None, patch });
    }
}

/// The content first, which goes or stays as its policy says.
fn let_go(seen: &Observed, plan: &mut Plan) {
    let snapshot = &*seen.snapshot;
    if seen.is_source {
        return;
    }
    if let Some(content) = seen.content.as_deref().filter(|content| is_of(content, snapshot)) {
        if annotation(&content.metadata, BEING_DELETED).is_none() {
            let patch = json!({"metadata": {"annotations": {BEING_DELETED: "yes"}}});
            plan.act(Action::patch(content, patch));
        }
        if content.spec.deletion_policy == "Delete" {
            if content.metadata.deletion_timestamp.is_none() {
                plan.act(Action::delete(content));
            }
            return;
        }
    }
    free_claim(seen, plan);
    if let Some(patch) = finalizers_patch(&snapshot.metadata, &[], &[AS_SOURCE, BOUND]) {
        plan.act(Action::Patch { target: Target::unchanged(snapshot), subresource: None, patch });
    }
}
