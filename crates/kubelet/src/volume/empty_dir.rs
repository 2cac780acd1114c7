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
    let in_memory = volume.medium.as_deref() == Some("Memory");
    if in_memory && !is_mount_point(dir) {
        let size = volume.size_limit.as_ref().and_then(|q| quantity::value(&q.0)).filter(|n| *n > 0);
        let options = size.map(|bytes| format!("size={bytes}"));
        mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), options.as_deref())?;
    }
    if let Some(group) = group {
        chown(dir, None, Some(Gid::from_raw(group)))?;
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode(in_memory, group.is_some())))
}

/// Open to all. The kernel makes the root of a tmpfs with the sticky bit, and Kubernetes leaves it there.
fn mode(in_memory: bool, of_group: bool) -> u32 {
    let sticky = if in_memory { 0o1000 } else { 0 };
    let set_group = if of_group { 0o2000 } else { 0 };
    0o777 | sticky | set_group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_that_of_kubernetes() {
        let modes = [mode(false, false), mode(false, true), mode(true, false), mode(true, true)];
        assert_eq!(modes, [0o777, 0o2777, 0o1777, 0o3777]);
    }
}
