//! Brings the volumes of a pod's claims to the node before anything of the pod starts.

use k8s_openapi::api::core::v1::PersistentVolume;
use minik8s_meta::local_volume;

use super::operation::{Operation, OperationError, Result};
use crate::csi;
use crate::objects::{ClaimedPath, ClaimedVolumes, Claims, claim_name};
use crate::storage::{Staged, User, tell_size};

impl Operation {
    pub(super) async fn stage_claims(&self, claimed: ClaimedVolumes, is_start: bool) -> Result<Claims> {
        let mut claims = Claims::new();
        let context =
            self.desired_pod.spec().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
        let group = context.fs_group.and_then(|group| u32::try_from(group).ok());
        let only_root_mismatch = context.fs_group_change_policy.as_deref() == Some("OnRootMismatch");
        let volumes = self.desired_pod.spec().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
        for volume in volumes {
            let Some(name) = claim_name(&self.desired_pod, volume) else { continue };
            let found = match claimed.get(&name) {
                Some(Ok(found)) => found,
                Some(Err(error)) => {
                    claims.insert(name, Err(error.clone()));
                    continue;
                }
                None => continue,
            };
            let is_read_only =
                volume.persistent_volume_claim.as_ref().is_some_and(|c| c.read_only == Some(true));
            let user = User {
                pod: &self.desired_pod.uid,
                volume: &volume.name,
                group: group.filter(|_| is_start && !is_read_only),
                only_root_mismatch,
                is_start,
            };
            let staged = match is_of_driver(&found.volume) {
                true => {
                    let wanted = csi::Publication {
                        context: &self.context.volumes,
                        desired_pod: &self.desired_pod,
                        user,
                        volume: &found.volume,
                        claim: &found.claim,
                        is_read_only,
                        is_start,
                    };
                    let published = csi::publish(&wanted).await;
                    published.map(|place| (place, Staged::Whole)).map_err(|error| error.to_string())
                }
                false => {
                    let has_ended = |pod: &str| self.context.node.pods.has_ended(pod);
                    let staged = self.context.volumes.storage.stage(&found.volume, &user, &has_ended).await;
                    staged.map_err(|error| error.to_string())
                }
            };
            let (place, size) = staged.map_err(|error| failed(&volume.name, &error))?;
            // A claim that was to grow may have done so just now; one that cannot be told is told the next time.
            if size == Staged::Whole
                && let Err(error) = tell_size(&self.context.client, &found.volume, &found.claim).await
            {
                tracing::debug!(claim = name, %error, "cannot tell the size of a claim");
            }
            let path = place.path.to_string_lossy().into_owned();
            claims.insert(name, Ok(ClaimedPath { path, kind: place.kind }));
        }
        Ok(claims)
    }

    /// Volumes of drivers that the pod brings along.
    pub(super) async fn publish_inline(&self, is_start: bool) -> Result<()> {
        let volumes = self.desired_pod.spec().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
        for volume in volumes {
            let Some(source) = &volume.csi else { continue };
            let published =
                csi::publish_inline(&self.context.volumes, &self.desired_pod, volume, source, is_start).await;
            published.map_err(|error| failed(&volume.name, &error.to_string()))?;
        }
        Ok(())
    }
}

fn failed(volume: &str, error: &str) -> OperationError {
    let message = format!("MountVolume.SetUp failed for volume {volume:?} : {error}");
    OperationError::new("FailedMount", message)
}

/// Not of our own class `local`, whose volumes have the form of a driver's.
fn is_of_driver(volume: &PersistentVolume) -> bool {
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    csi.is_some_and(|csi| csi.driver != local_volume::DRIVER)
}
