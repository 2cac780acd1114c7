//! Which snapshots are to be made or deleted. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use minik8s_meta::local_volume;
use minik8s_meta::snapshot::VolumeSnapshotContent;
use minik8s_runtime::Caches;

use super::due::Work;
use crate::annotation::annotation;
use crate::snapshot::names::{BEING_DELETED, CONTENT, has_finalizer, is_ready};

/// For drivers whose controller service is ours to call, and for our own class.
pub fn due(caches: &Caches, drivers: &BTreeSet<String>) -> Vec<Work> {
    let contents = caches.of::<VolumeSnapshotContent>().list();
    let is_ours = |content: &Arc<VolumeSnapshotContent>| {
        content.spec.driver == local_volume::DRIVER || drivers.contains(&content.spec.driver)
    };
    contents.into_iter().filter(is_ours).filter_map(of_content).collect()
}

fn of_content(content: Arc<VolumeSnapshotContent>) -> Option<Work> {
    // Nothing is made that nobody would remove.
    if !has_finalizer(&content.metadata, CONTENT) {
        return None;
    }
    if content.metadata.deletion_timestamp.is_none() {
        let is_leaving = annotation(&content.metadata, BEING_DELETED).is_some();
        return (!is_leaving && !is_ready(&content)).then_some(Work::Snapshot { content });
    }
    // One that a VolumeSnapshot has stays as long as that does.
    let is_bound = content.spec.volume_snapshot_ref.uid.as_ref().is_some_and(|uid| !uid.is_empty());
    let is_free = !is_bound || annotation(&content.metadata, BEING_DELETED).is_some();
    is_free.then_some(Work::DeleteSnapshot { content })
}
