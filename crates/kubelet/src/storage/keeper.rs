//! Follows the volumes whose images this node keeps: grows those that shall be larger, and removes those that are deleted.
//!
//! An image goes only if its volume's policy is `Delete`, the server has let the volume go, and no pod of this node uses it;
//! then the node takes its finalizer away, and the volume is gone. Whatever fails is told and tried again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{Patch, PatchParams};
use minik8s_informer::{Caches, Change, ListOptions};
use minik8s_meta::local_volume::{IMAGE_FINALIZER, NODE_FIELD};
use serde_json::json;
use tokio::time::Instant;
use tracing::{info, warn};

use super::fullness::ABNORMAL;
use super::image::Images;
use super::{Staged, StorageError, VolumePlugin, users};
use crate::context::VolumeContext;
use crate::events::{Severity, Subject};
use crate::quantity;

const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Until what could not be done is tried again, and what an agent that was killed has left is looked for.
const AGAIN: Duration = Duration::from_secs(20);
/// How often what pods have deleted is given back to the disk.
const TRIM: Duration = Duration::from_secs(3600);

/// Never returns.
pub async fn keep_volumes(context: &VolumeContext, caches: &Caches) {
    let images = Images::new(&context.node.config);
    images.thaw_all();
    let own = ListOptions::fields(format!("{NODE_FIELD}={}", context.node.config.node_name));
    let informer = caches.informer::<core::PersistentVolume>(own);
    let mut changes = informer.subscribe();
    let mut done = DoneWith::default();
    let mut again = tokio::time::interval(AGAIN);
    let mut trims = tokio::time::interval_at(Instant::now() + TRIM, TRIM);
    loop {
        let changed: Vec<Arc<core::PersistentVolume>> = tokio::select! {
            change = changes.next() => match change {
                Change::Applied { new, .. } => vec![new],
                Change::Removed(old) => {
                    done.forget(&old);
                    continue;
                }
                Change::Synced | Change::Absent => continue,
            },
            () = context.storage.released() => informer.list(),
            _ = trims.tick() => {
                let images = images.clone();
                drop(tokio::task::spawn_blocking(move || images.trim_all()).await);
                continue;
            }
            _ = again.tick() => {
                context.storage.release_unused().await;
                informer.list()
            }
        };
        for volume in changed {
            if done.has(&volume) {
                continue;
            }
            match look_after(context, &images, &volume).await {
                Ok(Looked::After) => {}
                Ok(Looked::Last) => done.add(&volume),
                Err(error) => warn!(volume = name(&volume), %error, "cannot look after a volume"),
            }
        }
    }
}

/// UIDs of volumes that are done with, until the API says that they are gone too.
#[derive(Default)]
struct DoneWith(BTreeSet<String>);

impl DoneWith {
    fn has(&self, volume: &core::PersistentVolume) -> bool {
        volume.metadata.uid.as_ref().is_some_and(|uid| self.0.contains(uid))
    }

    fn add(&mut self, volume: &core::PersistentVolume) {
        self.0.extend(volume.metadata.uid.clone());
    }

    fn forget(&mut self, volume: &core::PersistentVolume) {
        self.0.remove(volume.metadata.uid.as_deref().unwrap_or_default());
    }
}

/// What came of looking after a volume.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    After,
    /// There is nothing left to do for it.
    Last,
}

fn name(volume: &core::PersistentVolume) -> &str {
    volume.metadata.name.as_deref().unwrap_or_default()
}

#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

async fn look_after(
    context: &VolumeContext,
    images: &Images,
    volume: &core::PersistentVolume,
) -> Result<Looked, KeepError> {
    let has = |finalizer: &str| volume.metadata.finalizers.iter().flatten().any(|name| name == finalizer);
    if volume.metadata.deletion_timestamp.is_some() {
        return match has(IMAGE_FINALIZER) && !has(VOLUME_PROTECTION) {
            true => remove(context, images, volume).await,
            false => Ok(Looked::After),
        };
    }
    if !images.is_staged(name(volume)) {
        let _lock = context.storage.lock(name(volume)).await;
        let (images, volume) = (images.clone(), volume.clone());
        let made = tokio::task::spawn_blocking(move || images.make_ahead(&volume)).await;
        made.map_err(StorageError::from)??;
        return Ok(Looked::After);
    }
    let claims = claims_of(context, volume);
    let Some((claims, claim)) = claims else { return Ok(Looked::After) };
    let Some(claim) = claims.get_opt(&claim).await? else { return Ok(Looked::After) };
    {
        let _lock = context.storage.lock(name(volume)).await;
        if !images.is_staged(name(volume)) {
            return Ok(Looked::After);
        }
        let tell = |reason: &str, message: &str| {
            context.recorder.record(subject(&claim), Severity::Warning, reason, message);
        };
        match images.stage(volume).await {
            Ok(Staged::Whole) => {}
            Ok(Staged::Smaller(why) | Staged::InUse(why)) => {
                let message =
                    format!("cannot grow while a pod uses it, and grows when the next one starts: {why}");
                tell("FileSystemResizeFailed", &message);
                return Ok(Looked::After);
            }
            Err(error) => {
                if let StorageError::Lost { path, .. } = &error {
                    tell(ABNORMAL, &lost_in_use(path));
                }
                return Err(error.into());
            }
        }
    }
    tell_size(&context.client, volume, &claim).await?;
    Ok(Looked::After)
}

/// The kernel keeps a file that is removed as long as it is mounted.
fn lost_in_use(image: &Path) -> String {
    format!(
        "the image of the volume was removed from {} while it is used, and its data goes with the last pod that uses it: \
         copy the data out of the pod before",
        image.display()
    )
}

/// Says in the claim's status how large its volume is now, if that is news.
pub async fn tell_size(
    client: &kube::Client,
    volume: &core::PersistentVolume,
    claim: &core::PersistentVolumeClaim,
) -> Result<(), kube::Error> {
    let size = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    let told = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
    let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    let (Some(size), true) = (size, is_bound) else { return Ok(()) };
    if !is_news(told, size) {
        return Ok(());
    }
    let status = json!({"status": {
        "capacity": {"storage": size},
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": null,
        "conditions": null,
    }});
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let claims: Api<core::PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claim.metadata.name.as_deref().unwrap_or_default();
    claims.patch_status(claim, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}

/// What was told is never taken back: who was busy may have seen the volume before it grew.
fn is_news(told: Option<&Quantity>, size: &Quantity) -> bool {
    let bytes = |amount: &Quantity| quantity::value(&amount.0);
    told.is_none_or(|told| told != size && bytes(told) <= bytes(size))
}

pub(super) fn subject(claim: &core::PersistentVolumeClaim) -> Subject {
    Subject {
        kind: "PersistentVolumeClaim",
        namespace: claim.metadata.namespace.clone().unwrap_or_default(),
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        field_path: None,
    }
}

fn claims_of(
    context: &VolumeContext,
    volume: &core::PersistentVolume,
) -> Option<(Api<core::PersistentVolumeClaim>, String)> {
    let kept = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some((Api::namespaced(context.client.clone(), kept.namespace.as_deref()?), kept.name.clone()?))
}

async fn remove(
    context: &VolumeContext,
    images: &Images,
    volume: &core::PersistentVolume,
) -> Result<Looked, KeepError> {
    let name = name(volume);
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if policy == Some("Delete") {
        let _lock = context.storage.lock(name).await;
        if users::any(&context.node.config.pods_dir(), name).map_err(StorageError::from)? {
            // The pod's end comes back to this.
            return Ok(Looked::After);
        }
        let (images, name) = (images.clone(), name.to_owned());
        let removed = tokio::task::spawn_blocking(move || images.remove(&name)).await;
        if removed.map_err(StorageError::from)?? {
            info!(volume = self::name(volume), "removed the image of a deleted volume");
        }
    }
    let left: Vec<_> =
        volume.metadata.finalizers.iter().flatten().filter(|f| *f != IMAGE_FINALIZER).collect();
    let version = &volume.metadata.resource_version;
    let patch =
        json!({"metadata": {"finalizers": left, "uid": volume.metadata.uid, "resourceVersion": version}});
    let volumes: Api<core::PersistentVolume> = Api::all(context.client.clone());
    let looked = judge(volumes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop))?;
    if looked == Looked::Last && policy != Some("Delete") {
        info!(volume = name, "a deleted volume is retained: its image stays in the data dir");
    }
    Ok(looked)
}

/// Whether the API has taken note that the image is dealt with. A node may not speak of volumes that are gone: the server
/// says so a moment before it tells that one is gone. If it is still there, it is looked after again.
fn judge(written: Result<(), kube::Error>) -> Result<Looked, kube::Error> {
    match written {
        Ok(()) => Ok(Looked::Last),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Looked::Last),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 409) => Ok(Looked::After),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, uid: &str) -> core::PersistentVolume {
        serde_json::from_value(json!({"metadata": {"name": name, "uid": uid}})).unwrap()
    }

    #[test]
    fn volume_that_is_done_with_is_left_alone_until_it_is_gone() {
        let mut done = DoneWith::default();
        done.add(&volume("v", "1"));
        assert!(done.has(&volume("v", "1")));
        assert!(!done.has(&volume("v", "2")), "another of the same name is not done with");
        done.forget(&volume("v", "1"));
        assert!(!done.has(&volume("v", "1")));
    }

    #[test]
    fn size_of_a_claim_is_never_taken_back() {
        let check = |told: Option<&str>, size: &str, expected: bool| {
            let told = told.map(|told| Quantity(told.to_owned()));
            assert_eq!(is_news(told.as_ref(), &Quantity(size.to_owned())), expected, "{told:?} {size}");
        };
        check(None, "1Gi", true);
        check(Some("1Gi"), "1Gi", false);
        check(Some("1Gi"), "2Gi", true);
        check(Some("2Gi"), "1Gi", false);
        check(Some("1Gi"), "1024Mi", true);
    }

    #[test]
    fn refusal_for_a_volume_that_is_gone_is_no_failure() {
        let refused = |code: u16| {
            let status = json!({"status": "Failure", "message": "m", "reason": "r", "code": code});
            Err(kube::Error::Api(serde_json::from_value(status).unwrap()))
        };
        assert_eq!(judge(Ok(())).unwrap(), Looked::Last);
        assert_eq!(judge(refused(404)).unwrap(), Looked::Last);
        assert_eq!(judge(refused(403)).unwrap(), Looked::After);
        assert_eq!(judge(refused(409)).unwrap(), Looked::After);
        assert!(judge(refused(500)).is_err());
    }
}
