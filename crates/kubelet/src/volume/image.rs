//! image volumes: the files of an image, to be read.

use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1 as core;
use minik8s_datadir::is_mount_point;
use nix::mount::{MsFlags, mount};

use super::payload::Sources;
use super::{PodVolumePlugin, PodVolumes, SetUpError};
use crate::image::ViewMount;

pub struct Image;

impl PodVolumePlugin for Image {
    fn serves(&self, volume: &core::Volume) -> bool {
        volume.image.is_some()
    }

    fn path(&self, pod: &PodVolumes<'_>, volume: &core::Volume) -> PathBuf {
        pod.image_dir(&volume.name)
    }

    fn is_read_only(&self, _: &core::Volume) -> bool {
        true
    }

    fn set_up(
        &self,
        pod: &PodVolumes<'_>,
        volume: &core::Volume,
        sources: &Sources<'_>,
    ) -> Result<(), SetUpError> {
        let mounts = sources.images.get(&volume.name).map(Vec::as_slice).unwrap_or_default();
        Ok(prepare(&pod.image_dir(&volume.name), mounts)?)
    }
}

fn prepare(dir: &Path, mounts: &[ViewMount]) -> io::Result<()> {
    if is_mount_point(dir) {
        return Ok(());
    }
    for view in mounts {
        let (bind, options) = split(&view.options);
        let (kind, source) = (view.kind.as_str(), view.source.as_str());
        if !bind.contains(MsFlags::MS_BIND) {
            mount(Some(source), dir, Some(kind), MsFlags::MS_RDONLY, Some(options.as_str()))?;
            continue;
        }
        mount(Some(source), dir, None::<&str>, bind, None::<&str>)?;
        // The first call takes the tree as it is; only a second one can lock it.
        mount(
            None::<&str>,
            dir,
            None::<&str>,
            MsFlags::MS_RDONLY | MsFlags::MS_BIND | MsFlags::MS_REMOUNT,
            None::<&str>,
        )?;
    }
    Ok(())
}

/// Options that are flags to the kernel, and those that the file system reads.
fn split(options: &[String]) -> (MsFlags, String) {
    let mut flags = MsFlags::empty();
    let mut rest = Vec::new();
    for option in options {
        match option.as_str() {
            "bind" => flags |= MsFlags::MS_BIND,
            "rbind" => flags |= MsFlags::MS_BIND | MsFlags::MS_REC,
            // Set, or refused, in any case.
            "ro" | "rw" => {}
            other => rest.push(other),
        }
    }
    (flags, rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let check = |options: &[&str], flags: MsFlags, rest: &str| {
            let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
            assert_eq!(split(&options), (flags, rest.to_owned()), "{options:?}");
        };
        check(&["ro", "rbind"], MsFlags::MS_BIND | MsFlags::MS_REC, "");
        check(&["index=off", "lowerdir=/b:/a"], MsFlags::empty(), "index=off,lowerdir=/b:/a");
    }
}
