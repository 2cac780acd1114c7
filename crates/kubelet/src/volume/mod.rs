//! Volumes: brought into being before a pod's sandbox, kept up to date, taken away after its end.
//!
//! Each kind of volume is a [`PodVolumePlugin`], one file each and one line in [`PLUGINS`]. Everything of a pod lies below one
//! directory named by its UID. All functions here block and are idempotent: an agent that died half way does the same again.
//! What takes time (pulling an image, asking a driver, fetching objects) was done before, by whoever calls them.

mod atomic;
mod certificates;
mod claim;
mod empty_dir;
mod files;
mod host_path;
mod image;
mod inline_csi;
mod memory;
mod mounts;
mod openssl;
mod payload;
mod sub_path;
mod tokens;
mod trust_anchors;

pub use certificates::{Applicant, CertificateCache};
pub use mounts::ContainerFiles;
pub use payload::Sources;
pub use tokens::{TokenCache, request_token};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1 as core;
use minik8s_datadir::{RemovalError, UnmountError, is_mount_point, unmount_and_remove, unmount_below};
use thiserror::Error;

use crate::Config;
use crate::objects::ClaimError;
use crate::pod::DesiredPod;
use payload::PayloadError;

#[derive(Debug, Error)]
pub enum VolumeError {
    #[error("MountVolume.SetUp failed for volume {volume:?} : {cause}")]
    SetUp { volume: String, cause: SetUpError },
}

#[derive(Debug, Error)]
pub enum SetUpError {
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error(transparent)]
    HostPath(#[from] host_path::HostPathError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("this node cannot mount volumes of this type")]
    Unsupported,
}

/// One kind of volumes of pods.
trait PodVolumePlugin: Sync {
    /// Whether this is a volume of its kind.
    fn serves(&self, volume: &core::Volume) -> bool;

    /// Where a volume lies on the node.
    fn path(&self, pod: &PodVolumes<'_>, volume: &core::Volume) -> PathBuf {
        pod.volume_dir(&volume.name)
    }

    /// Containers may only read it, whatever their mounts say.
    fn is_read_only(&self, _volume: &core::Volume) -> bool {
        false
    }

    /// Makes the volume, or brings it up to date.
    fn set_up(
        &self,
        pod: &PodVolumes<'_>,
        volume: &core::Volume,
        sources: &Sources<'_>,
    ) -> Result<(), SetUpError>;
}

/// All that a node can mount. A volume is of one kind only.
const PLUGINS: &[&dyn PodVolumePlugin] = &[
    &host_path::HostPath,
    &empty_dir::EmptyDir,
    &claim::Claim,
    &inline_csi::InlineCsi,
    &image::Image,
    &files::ConfigMap,
    &files::Secret,
    &files::DownwardApi,
    &files::Projected,
];

fn plugin(volume: &core::Volume) -> Option<&'static dyn PodVolumePlugin> {
    PLUGINS.iter().find(|plugin| plugin.serves(volume)).copied()
}

/// Where images are mounted: apart from the other volumes, so that a pod that has any is known by it.
const IMAGES: &str = "images";

/// The volumes of one pod.
pub struct PodVolumes<'a> {
    desired_pod: &'a DesiredPod,
    pods: PathBuf,
    dir: PathBuf,
}

impl<'a> PodVolumes<'a> {
    pub fn new(config: &Config, desired_pod: &'a DesiredPod) -> Self {
        let pods = config.pods_dir();
        PodVolumes { desired_pod, dir: pods.join(&desired_pod.uid), pods }
    }

    /// Makes every volume, or brings it up to date.
    pub fn prepare(&self, sources: &Sources<'_>) -> Result<(), VolumeError> {
        for volume in self.volumes() {
            let name = volume.name.clone();
            self.set_up(volume, sources).map_err(|cause| VolumeError::SetUp { volume: name, cause })?;
        }
        Ok(())
    }

    /// Unmounts and removes all that the pod had. What it had mounted is not its own: as long as any of that stays, so
    /// does everything.
    pub fn release(&self) -> Result<(), RemovalError> {
        unmount_and_remove(&self.pods, &self.desired_pod.uid)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn volumes(&self) -> &[core::Volume] {
        self.desired_pod.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default()
    }

    fn volume(&self, name: &str) -> Option<&core::Volume> {
        self.volumes().iter().find(|volume| volume.name == name)
    }

    /// Where a volume lies on the node.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let volume = self.volume(name)?;
        Some(plugin(volume).map_or_else(|| self.volume_dir(name), |plugin| plugin.path(self, volume)))
    }

    /// Containers may only read it, whatever their mounts say.
    pub fn is_read_only(&self, name: &str) -> bool {
        let volume = self.volume(name);
        volume.is_some_and(|volume| plugin(volume).is_some_and(|plugin| plugin.is_read_only(volume)))
    }

    /// The volumes made of images that are still to be mounted. Their directories are made first of all: they
    /// tell whoever cleans up that there may be something of an image.
    pub fn missing_images(&self) -> io::Result<Vec<(&str, &core::ImageVolumeSource)>> {
        let mut missing = Vec::new();
        for volume in self.volumes() {
            let Some(image) = &volume.image else { continue };
            let dir = self.image_dir(&volume.name);
            fs::create_dir_all(&dir)?;
            if !is_mount_point(&dir) {
                missing.push((volume.name.as_str(), image));
            }
        }
        Ok(missing)
    }

    /// True if there were any, be it only in an attempt.
    pub fn unmount_images(&self) -> Result<bool, UnmountError> {
        let dir = self.dir.join(IMAGES);
        let any = dir.exists();
        if any {
            unmount_below(&dir)?;
        }
        Ok(any)
    }

    /// Where volumes lie that have no other place.
    fn volume_dir(&self, name: &str) -> PathBuf {
        self.dir.join("volumes").join(name)
    }

    fn image_dir(&self, name: &str) -> PathBuf {
        self.dir.join(IMAGES).join(name)
    }

    fn set_up(&self, volume: &core::Volume, sources: &Sources<'_>) -> Result<(), SetUpError> {
        plugin(volume).ok_or(SetUpError::Unsupported)?.set_up(self, volume, sources)
    }

    /// The group that owns the pod's volumes.
    fn group(&self) -> Option<u32> {
        let context = self.desired_pod.spec().and_then(|spec| spec.security_context.as_ref());
        context.and_then(|c| c.fs_group).and_then(|group| u32::try_from(group).ok())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volume_is_of_one_kind_only() {
        for (source, value) in [
            ("hostPath", json!({"path": "/x"})),
            ("emptyDir", json!({})),
            ("persistentVolumeClaim", json!({"claimName": "c"})),
            ("ephemeral", json!({})),
            ("csi", json!({"driver": "d"})),
            ("image", json!({"reference": "r"})),
            ("configMap", json!({"name": "c"})),
            ("secret", json!({"secretName": "s"})),
            ("downwardAPI", json!({})),
            ("projected", json!({})),
        ] {
            let volume: core::Volume = serde_json::from_value(json!({"name": "v", source: value})).unwrap();
            assert_eq!(PLUGINS.iter().filter(|plugin| plugin.serves(&volume)).count(), 1, "{source}");
        }
        let other =
            serde_json::from_value(json!({"name": "v", "iscsi": {"iqn": "", "lun": 0, "targetPortal": ""}}));
        assert!(plugin(&other.unwrap()).is_none());
    }
}
