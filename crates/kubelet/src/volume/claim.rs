//! Claims: a link to where the volume that the claim is bound to was brought.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1 as core;

use super::payload::Sources;
use super::{PodVolumePlugin, PodVolumes, SetUpError, host_path};
use crate::objects::{ClaimError, claim_name};

pub struct Claim;

impl PodVolumePlugin for Claim {
    fn serves(&self, volume: &core::Volume) -> bool {
        volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
    }

    /// A claim's directory is somebody else's: only a link to it is ours.
    fn path(&self, pod: &PodVolumes<'_>, volume: &core::Volume) -> PathBuf {
        let dir = pod.volume_dir(&volume.name);
        fs::read_link(&dir).unwrap_or(dir)
    }

    fn is_read_only(&self, volume: &core::Volume) -> bool {
        volume.persistent_volume_claim.as_ref().and_then(|claim| claim.read_only) == Some(true)
    }

    fn set_up(
        &self,
        pod: &PodVolumes<'_>,
        volume: &core::Volume,
        sources: &Sources<'_>,
    ) -> Result<(), SetUpError> {
        let name = claim_name(pod.desired_pod, volume).unwrap_or_default();
        let claimed = sources.claims.get(&name).cloned().unwrap_or(Err(ClaimError::Missing(name)))?;
        host_path::check(&claimed.path, &claimed.kind)?;
        Ok(link(&pod.volume_dir(&volume.name), Path::new(&claimed.path))?)
    }
}

/// Makes or renews a link.
fn link(at: &Path, target: &Path) -> io::Result<()> {
    if fs::read_link(at).is_ok_and(|old| old == target) {
        return Ok(());
    }
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    let _ = fs::remove_file(at);
    std::os::unix::fs::symlink(target, at)
}
