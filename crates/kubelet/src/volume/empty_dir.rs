//! emptyDir volumes: a directory that lives as long as the pod, on disk or in memory.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_openapi::api::core::v1 as core;
use minik8s_datadir::is_mount_point;
use nix::mount::{MsFlags, mount};
use nix::unistd::{Gid, chown};

use super::payload::Sources;
use super::{PodVolumePlugin, PodVolumes, SetUpError};
use crate::quantity;

pub struct EmptyDir;

impl PodVolumePlugin for EmptyDir {
    fn serves(&self, volume: &core::Volume) -> bool {
        volume.empty_dir.is_some()
    }

    fn set_up(&self, pod: &PodVolumes<'_>, volume: &core::Volume, _: &Sources<'_>) -> Result<(), SetUpError> {
        let Some(source) = &volume.empty_dir else { return Err(SetUpError::Unsupported) };
        Ok(prepare(&pod.volume_dir(&volume.name), source, pod.group())?)
    }
}

fn prepare(dir: &Path, volume: &core::EmptyDirVolumeSource, group: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    if volume.medium.as_deref() == Some("Memory") && !is_mount_point(dir) {
        let size = volume.size_limit.as_ref().and_then(|q| quantity::value(&q.0)).filter(|n| *n > 0);
        let options = size.map(|bytes| format!("size={bytes}"));
        mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), options.as_deref())?;
    }
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    if let Some(group) = group {
        chown(dir, None, Some(Gid::from_raw(group)))?;
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}
