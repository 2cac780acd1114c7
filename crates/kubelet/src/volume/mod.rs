//! Volumes: brought into being before a pod's sandbox, kept up to date, taken away after its end.
//!
//! Everything of a pod lies below one directory named by its UID. All functions here block and are
//! idempotent: an agent that died half way does the same again.

mod atomic;
mod empty_dir;
mod host_path;
mod image;
mod mount_table;
mod mounts;
mod payload;
mod sub_path;
mod tokens;

pub use mount_table::unmount_below;
pub use mounts::ContainerFiles;
pub use payload::Sources;
pub use tokens::TokenCache;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use crate::Config;
use crate::objects::{ClaimError, claim_name};
use crate::pod::Blueprint;
use mount_table::is_mount_point;
use payload::{Payload, PayloadError};

#[derive(Debug, Error)]
pub enum VolumeError {
    #[error("MountVolume.SetUp failed for volume {volume:?} : {source}")]
    SetUp { volume: String, source: SetUpError },
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

/// Where images are mounted: apart from the other volumes, so that a pod that has any is known by it.
const IMAGES: &str = "images";

/// The volumes of one pod.
pub struct PodVolumes<'a> {
    blueprint: &'a Blueprint,
    dir: PathBuf,
}

impl<'a> PodVolumes<'a> {
    pub fn new(config: &Config, blueprint: &'a Blueprint) -> Self {
        PodVolumes { blueprint, dir: config.pods_dir().join(&blueprint.uid) }
    }

    /// Makes every volume, or brings it up to date.
    pub fn prepare(&self, sources: &Sources<'_>) -> Result<(), VolumeError> {
        for volume in self.volumes() {
            let name = volume.name.clone();
            self.set_up(volume, sources).map_err(|source| VolumeError::SetUp { volume: name, source })?;
        }
        Ok(())
    }

    /// Unmounts and removes all that the pod had.
    pub fn release(&self) -> io::Result<()> {
        unmount_below(&self.dir);
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn volumes(&self) -> &[core::Volume] {
        self.blueprint.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default()
    }

    /// Where a volume lies on the node.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let volume = self.volumes().iter().find(|volume| volume.name == name)?;
        let dir = self.dir.join("volumes").join(name);
        Some(match &volume.host_path {
            Some(host_path) => PathBuf::from(&host_path.path),
            None if volume.image.is_some() => self.image_dir(name),
            // A claim's directory is somebody else's: only a link to it is ours.
            None if claim_name(self.blueprint, volume).is_some() => fs::read_link(&dir).unwrap_or(dir),
            None => dir,
        })
    }

    /// Containers may only read it, whatever their mounts say.
    pub fn is_read_only(&self, name: &str) -> bool {
        let claim = |volume: &core::Volume| volume.persistent_volume_claim.as_ref().and_then(|c| c.read_only);
        let volume = self.volumes().iter().find(|volume| volume.name == name);
        volume.is_some_and(|volume| volume.image.is_some() || claim(volume) == Some(true))
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
    pub fn unmount_images(&self) -> bool {
        let dir = self.dir.join(IMAGES);
        let any = dir.exists();
        if any {
            unmount_below(&dir);
        }
        any
    }

    fn image_dir(&self, name: &str) -> PathBuf {
        self.dir.join(IMAGES).join(name)
    }

    fn set_up(&self, volume: &core::Volume, sources: &Sources<'_>) -> Result<(), SetUpError> {
        let dir = self.dir.join("volumes").join(&volume.name);
        if let Some(host_path) = &volume.host_path {
            return Ok(host_path::check(&host_path.path, host_path.type_.as_deref().unwrap_or_default())?);
        }
        if let Some(empty_dir) = &volume.empty_dir {
            return Ok(empty_dir::prepare(&dir, empty_dir, self.group())?);
        }
        if let Some(name) = claim_name(self.blueprint, volume) {
            let claimed = sources.claims.get(&name).cloned().unwrap_or(Err(ClaimError::Missing(name)))?;
            host_path::check(&claimed.path, &claimed.kind)?;
            return Ok(link(&dir, Path::new(&claimed.path))?);
        }
        if volume.image.is_some() {
            let mounts = sources.images.get(&volume.name).map(Vec::as_slice).unwrap_or_default();
            return Ok(image::prepare(&self.image_dir(&volume.name), mounts)?);
        }
        let payload: Payload = if let Some(source) = &volume.config_map {
            sources.config_map(source)?
        } else if let Some(source) = &volume.secret {
            sources.secret(source)?
        } else if let Some(source) = &volume.downward_api {
            sources.downward(source)?
        } else if let Some(source) = &volume.projected {
            sources.projected(source)?
        } else {
            return Err(SetUpError::Unsupported);
        };
        atomic::write(&dir, &payload, self.group())?;
        Ok(())
    }

    /// The group that owns the pod's volumes.
    fn group(&self) -> Option<u32> {
        let context = self.blueprint.spec().and_then(|spec| spec.security_context.as_ref());
        context.and_then(|c| c.fs_group).and_then(|group| u32::try_from(group).ok())
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
