//! hostPath and local volumes: a directory of the node that is somebody else's, or a raw device. Nothing is made but what
//! `type` asks for, and nothing removed.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;

use super::{Place, Staged, StorageError, VolumePlugin};

pub struct HostPath;

#[async_trait]
impl VolumePlugin for HostPath {
    fn serves(&self, volume: &core::PersistentVolume) -> bool {
        volume.spec.as_ref().is_some_and(|spec| spec.host_path.is_some() || spec.local.is_some())
    }

    fn place(&self, volume: &core::PersistentVolume) -> Result<Place, StorageError> {
        let spec = volume.spec.clone().unwrap_or_default();
        let is_block = spec.volume_mode.as_deref() == Some("Block");
        let (path, kind, takes_group) = match (spec.host_path, spec.local) {
            (Some(source), _) => (source.path, source.type_.unwrap_or_default(), false),
            (None, Some(source)) => (source.path, "Directory".to_owned(), true),
            (None, None) => {
                return Err(StorageError::Unsupported(volume.metadata.name.clone().unwrap_or_default()));
            }
        };
        let kind = if is_block { "BlockDevice".to_owned() } else { kind };
        Ok(Place { path: path.into(), kind, takes_group })
    }

    async fn stage(&self, _: &core::PersistentVolume) -> Result<Staged, StorageError> {
        Ok(Staged::Whole)
    }
}
