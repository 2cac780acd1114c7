//! Contents: kept until their snapshot in the storage system is dealt with, and deleted with their VolumeSnapshot if their
//! policy says so.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use minik8s_meta::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use minik8s_runtime::{Action, Caches, Controller, Key, Kind, Plan, Target, Watches};
use serde_json::json;

use super::names::{BEING_DELETED, CONTENT};
use super::snapshot_of;
use crate::annotation::{annotation, finalizers_patch};

pub struct Contents;

pub struct Observed {
    content: Arc<VolumeSnapshotContent>,
    snapshot: Option<Arc<VolumeSnapshot>>,
}

impl Controller for Contents {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "snapshot-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<VolumeSnapshotContent>();
        watches.on_change::<VolumeSnapshot>(|old, new| {
            let gone = old
                .filter(|_| new.is_none())
                .and_then(|snapshot| snapshot.status.as_ref()?.bound_volume_snapshot_content_name.clone());
            gone.map(|name| Key::new("", name)).into_iter().collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let content = caches.of::<VolumeSnapshotContent>().get(key)?;
        let snapshot = snapshot_of(&content).and_then(|key| caches.of::<VolumeSnapshot>().get(&key));
        Some(Observed { content, snapshot })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let content = &*seen.content;
        if content.metadata.deletion_timestamp.is_none()
            && let Some(patch) = finalizers_patch(&content.metadata, &[CONTENT], &[])
        {
            plan.act(Action::Patch { target: Target::unchanged(content), subresource: None, patch });
            return plan;
        }
        let kept = &content.spec.volume_snapshot_ref;
        let uid = kept.uid.as_ref().filter(|uid| !uid.is_empty());
        let is_there = seen.snapshot.as_ref().is_some_and(|one| one.metadata.uid.as_ref() == uid);
        if uid.is_some() && !is_there {
            orphaned(content, &mut plan);
        }
        plan
    }
}

/// Its snapshot is gone, and whoever removed it had no time to say so.
fn orphaned(content: &VolumeSnapshotContent, plan: &mut Plan) {
    let is_told = annotation(&content.metadata, BEING_DELETED).is_some();
    let goes = content.spec.deletion_policy == "Delete" && content.metadata.deletion_timestamp.is_none();
    if is_told && !goes {
        return;
    }
    // A cache can be late; the API is asked before anything is let go.
    plan.act(Action::RequireAbsent {
        target: Target {
            kind: Kind::of::<VolumeSnapshot>(),
            key: snapshot_of(content).unwrap_or_default(),
            uid: content.spec.volume_snapshot_ref.uid.clone(),
            resource_version: None,
        },
    });
    if !is_told {
        let patch = json!({"metadata": {"annotations": {BEING_DELETED: "yes"}}});
        plan.act(Action::patch(content, patch));
    }
    if goes {
        plan.act(Action::delete(content));
    }
}
