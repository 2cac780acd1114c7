//! Takes volumes of drivers away: from a pod that has ended, and from the node when no pod uses them any more.
//!
//! A record goes last, after the driver has said that the volume is away. Never removed is what is still mounted.

use std::collections::BTreeSet;
use std::path::PathBuf;

use minik8s_csi::node;
use minik8s_datadir::remove_tree;
use tracing::warn;

use super::publication::registered;
use super::record::{Kept, pod_records, pods_with_volumes, staged_records};
use super::{CsiError, attachment};
use crate::context::VolumeContext;
use crate::storage::users;

/// All volumes of drivers of a pod whose containers have ended. Returns those that may be unstaged now.
pub async fn unpublish_pod(context: &VolumeContext, pod: &str) -> Result<BTreeSet<String>, CsiError> {
    let mut volumes = BTreeSet::new();
    for (dir, record) in pod_records(&context.node.config, pod)? {
        let Some(record) = record else {
            remove(dir).await?;
            continue;
        };
        let _lock = context.storage.lock(&record.volume).await;
        let kept = Kept { dir, record };
        let call = node::UnpublishVolume {
            volume_id: kept.record.handle.clone(),
            target_path: kept.target().to_string_lossy().into_owned(),
        };
        registered(context, &kept.record.driver)?.driver.call(&call).await?;
        remove(kept.dir).await?;
        volumes.insert(kept.record.volume);
    }
    Ok(volumes)
}

/// Volumes of pods that are gone; returns those of which some are still there.
pub async fn unpublish_leftovers(context: &VolumeContext, known: &BTreeSet<String>) -> Vec<String> {
    let gone = match pods_with_volumes(&context.node.config) {
        Ok(pods) => pods.into_iter().filter(|pod| !known.contains(pod)),
        Err(error) => {
            warn!(%error, "cannot tell which pods have volumes of drivers");
            return Vec::new();
        }
    };
    let mut left = Vec::new();
    for pod in gone {
        if let Err(error) = unpublish_pod(context, &pod).await {
            warn!(pod, %error, "cannot take the volumes of a pod away that is gone");
            left.push(pod);
        }
    }
    left
}

/// Unstages what no pod links to, and tells what may be detached. What fails is told and tried again.
pub async fn release_unused(context: &VolumeContext) {
    release(context, |_| true).await;
}

/// The same of the volumes of a pod that has ended. A driver that hangs keeps no pod from ending that has none of its own.
pub async fn release_volumes(context: &VolumeContext, volumes: &BTreeSet<String>) {
    if !volumes.is_empty() {
        release(context, |volume| volumes.contains(volume)).await;
    }
}

async fn release(context: &VolumeContext, is_meant: impl Fn(&str) -> bool) {
    let staged = match staged_records(&context.node.config) {
        Ok(staged) => staged,
        Err(error) => return warn!(%error, "cannot tell which volumes are staged"),
    };
    for kept in staged.into_iter().filter(|kept| is_meant(&kept.record.volume)) {
        let volume = kept.record.volume.clone();
        let _lock = context.storage.lock(&volume).await;
        if let Err(error) = unstage(context, &kept).await {
            warn!(volume, %error, "cannot release a volume that nobody uses");
        }
    }
    if let Err(error) = attachment::tell_in_use(context).await {
        warn!(%error, "cannot tell which volumes are in use");
    }
}

async fn unstage(context: &VolumeContext, kept: &Kept) -> Result<(), CsiError> {
    if users::any(&context.node.config.pods_dir(), &kept.record.volume)? {
        return Ok(());
    }
    let call = node::UnstageVolume {
        volume_id: kept.record.handle.clone(),
        staging_target_path: kept.staging().to_string_lossy().into_owned(),
    };
    registered(context, &kept.record.driver)?.driver.call(&call).await?;
    remove(kept.dir.clone()).await
}

/// A directory whose volume is away. One in which something is mounted stays, and so does its record.
async fn remove(dir: PathBuf) -> Result<(), CsiError> {
    let removed = tokio::task::spawn_blocking(move || match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => remove_tree(parent, name),
        _ => Ok(()),
    });
    Ok(removed.await??)
}
