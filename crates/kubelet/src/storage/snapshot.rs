//! Snapshots of volumes of the class `local`: copies of their images below `volume-snapshots/`, made and removed at the
//! server's call, as a CSI driver would.
//!
//! Blocks are shared where the file system can do that. A snapshot has its name only when it is complete, and one of which a
//! volume is still to be made is not removed.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::ListParams;
use minik8s_csi::controller::{
    CreateSnapshot, CreatedSnapshot, DeleteSnapshot, Done, Snapshot as Answer, Time,
};
use minik8s_csi::{CallError, Code};
use minik8s_datadir::remove_tree;
use minik8s_informer::Lenient;
use minik8s_meta::local_volume::{NODE_FIELD, parse_snapshot_handle, snapshot_handle};
use prost::Message;

use super::image::{IMAGE, Images};
use super::{StorageError, check_name, ext4};
use crate::context::VolumeContext;

/// A call of the server; others than those of snapshots are not for this driver.
pub async fn call(context: &VolumeContext, method: &str, message: Bytes) -> Result<Bytes, CallError> {
    let images = Images::new(&context.node.config);
    match method {
        "CreateSnapshot" => {
            let call: CreateSnapshot = read(method, message)?;
            let name = plain(method, &call.name)?;
            let volume = plain(method, &call.source_volume_id)?;
            let _locks = (context.storage.lock(&volume).await, context.storage.lock(&name).await);
            let made = tokio::task::spawn_blocking(move || images.snapshot(&name, &volume)).await;
            let snapshot =
                made.map_err(StorageError::from).flatten().map_err(|error| refused(method, &error))?;
            Ok(CreatedSnapshot { snapshot: Some(snapshot) }.encode_to_vec().into())
        }
        "DeleteSnapshot" => {
            let call: DeleteSnapshot = read(method, message)?;
            let own = parse_snapshot_handle(&call.snapshot_id).filter(|(node, _)| *node == images.node);
            let Some((_, name)) = own else {
                let error = StorageError::NoSnapshot(call.snapshot_id.clone());
                return Err(refused(method, &error));
            };
            let name = plain(method, name)?;
            let _lock = context.storage.lock(&name).await;
            check_unneeded(context, &images, &name).await?;
            let removed = tokio::task::spawn_blocking(move || images.remove_snapshot(&name)).await;
            removed.map_err(StorageError::from).flatten().map_err(|error| refused(method, &error))?;
            Ok(Done {}.encode_to_vec().into())
        }
        _ => {
            let message = "the class local has no such call".to_owned();
            Err(CallError::Refused { method: method.to_owned(), code: Code::UNIMPLEMENTED, message })
        }
    }
}

/// A volume whose image is not made yet would be made of nothing.
async fn check_unneeded(context: &VolumeContext, images: &Images, name: &str) -> Result<(), CallError> {
    const METHOD: &str = "DeleteSnapshot";
    let volumes: Api<Lenient<core::PersistentVolume>> = Api::all(context.client.clone());
    let own = ListParams::default().fields(&format!("{NODE_FIELD}={}", context.node.config.node_name));
    let failed =
        |code: Code, message: String| Err(CallError::Refused { method: METHOD.to_owned(), code, message });
    let volumes = match volumes.list(&own).await {
        Ok(volumes) => volumes.items.into_iter().map(Lenient::into_inner),
        Err(error) => return failed(Code::UNAVAILABLE, error.to_string()),
    };
    match volumes.into_iter().find(|volume| images.awaits_snapshot(volume, name)) {
        Some(volume) => {
            let volume = volume.metadata.name.as_deref().unwrap_or_default();
            failed(Code::FAILED_PRECONDITION, format!("the volume {volume} is still to be made of it"))
        }
        None => Ok(()),
    }
}

fn read<M: Message + Default>(method: &str, message: Bytes) -> Result<M, CallError> {
    M::decode(message).map_err(|error| CallError::Refused {
        method: method.to_owned(),
        code: Code::INVALID_ARGUMENT,
        message: error.to_string(),
    })
}

fn plain(method: &str, name: &str) -> Result<String, CallError> {
    check_name(name).map(str::to_owned).map_err(|error| refused(method, &error))
}

fn refused(method: &str, error: &StorageError) -> CallError {
    let code = match error {
        StorageError::Name(_) => Code::INVALID_ARGUMENT,
        StorageError::Lost { .. } | StorageError::NoSnapshot(_) => Code::NOT_FOUND,
        StorageError::Unmade(_) => Code::FAILED_PRECONDITION,
        StorageError::Full { .. } => Code::RESOURCE_EXHAUSTED,
        _ => Code::INTERNAL,
    };
    CallError::Refused { method: method.to_owned(), code, message: error.to_string() }
}

impl Images {
    /// Blocks. The same name gives the same snapshot.
    pub(super) fn snapshot(&self, name: &str, volume: &str) -> Result<Answer, StorageError> {
        let dir = self.snapshots.join(name);
        let image = dir.join(IMAGE);
        if !image.exists() {
            if !self.is_made(volume) {
                return Err(StorageError::Unmade(volume.to_owned()));
            }
            fs::create_dir_all(&dir)?;
            if let Err(error) = self.copy(volume, &image, 0) {
                // Half a copy may be what filled the disk.
                let _ = remove_tree(&self.snapshots, name);
                return Err(error);
            }
        }
        self.tell(name, volume, &image)
    }

    fn tell(&self, name: &str, volume: &str, image: &Path) -> Result<Answer, StorageError> {
        let metadata = image.metadata()?;
        let time = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Answer {
            size_bytes: i64::try_from(metadata.len()).unwrap_or(i64::MAX),
            snapshot_id: snapshot_handle(&self.node, name),
            source_volume_id: volume.to_owned(),
            creation_time: Some(Time {
                seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                nanos: i32::try_from(time.subsec_nanos()).unwrap_or(0),
            }),
            ready_to_use: true,
        })
    }

    pub(super) fn remove_snapshot(&self, name: &str) -> Result<(), StorageError> {
        match self.snapshots.join(name).exists() {
            true => Ok(remove_tree(&self.snapshots, name)?),
            false => Ok(()),
        }
    }

    /// Makes the image of a volume of a snapshot.
    pub(super) fn restore(&self, name: &str, image: &Path, size: u64) -> Result<(), StorageError> {
        let from = self.snapshots.join(name).join(IMAGE);
        match from.exists() {
            true => ext4::copy(&from, image, size),
            false => Err(StorageError::NoSnapshot(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_codes_of_csi() {
        let check = |error: StorageError, expected: Code| {
            assert_eq!(refused("CreateSnapshot", &error).code(), Some(expected), "{error}");
        };
        check(StorageError::Name("..".to_owned()), Code::INVALID_ARGUMENT);
        check(StorageError::NoSnapshot("s".to_owned()), Code::NOT_FOUND);
        check(StorageError::Unmade("v".to_owned()), Code::FAILED_PRECONDITION);
        check(StorageError::Full { free: 1, wanted: 2 }, Code::RESOURCE_EXHAUSTED);
        for name in ["..", "a/b", "", ".x"] {
            assert_eq!(
                plain("CreateSnapshot", name).unwrap_err().code(),
                Some(Code::INVALID_ARGUMENT),
                "{name}"
            );
        }
    }
}
