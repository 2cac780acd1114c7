//! Volumes of drivers that a pod brings along: the driver has made them before.

use std::path::PathBuf;

use k8s_openapi::api::core::v1 as core;

use super::payload::Sources;
use super::{PodVolumePlugin, PodVolumes, SetUpError, host_path};
use crate::csi;

pub struct InlineCsi;

impl PodVolumePlugin for InlineCsi {
    fn serves(&self, volume: &core::Volume) -> bool {
        volume.csi.is_some()
    }

    fn path(&self, pod: &PodVolumes<'_>, volume: &core::Volume) -> PathBuf {
        pod.dir.join("csi").join(csi::inline_dir_name(&volume.name)).join(csi::PUBLISHED)
    }

    fn set_up(&self, pod: &PodVolumes<'_>, volume: &core::Volume, _: &Sources<'_>) -> Result<(), SetUpError> {
        Ok(host_path::check(&self.path(pod, volume).to_string_lossy(), "Directory")?)
    }
}
