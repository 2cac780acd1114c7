//! Persistent volumes on this node: made, mounted once however many pods use them, grown, and removed.
//!
//! Each kind of volume is a [`VolumePlugin`], one file each and one line in [`Storage::new`]. A pod uses a volume through a
//! link in its own directory. The link is there before the volume is mounted and goes with the pod, so links tell who
//! uses what also to an agent that has just started; what nobody links to is unmounted. All steps can be done again.

mod block;
mod capacity;
mod disk;
mod ext4;
pub mod fs_group;
mod fullness;
mod image;
mod keeper;
mod loop_device;
mod nfs;
mod path;
mod program;
mod snapshot;
pub mod users;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use minik8s_datadir::{RemovalError, UnmountError};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use capacity::tell_capacity;
pub use fullness::watch_fullness;
pub use keeper::{keep_volumes, tell_size};
pub use snapshot::call as call_local_driver;

use crate::Config;

/// How long a pod that is over may take to let a volume go that is to grow for the next one.
const RELEASE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a pod, by its UID, is over.
pub type HasEnded<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// One way to have a volume on a node.
#[async_trait]
pub trait VolumePlugin: Send + Sync {
    /// Whether this is a volume of its kind.
    fn serves(&self, volume: &core::PersistentVolume) -> bool;

    /// Where containers find the volume. It need not be there yet.
    fn place(&self, volume: &core::PersistentVolume) -> Result<Place, StorageError>;

    /// Brings the volume there, as large as it shall be. Idempotent, and never called twice at once for one volume.
    async fn stage(&self, volume: &core::PersistentVolume) -> Result<Staged, StorageError>;

    /// Takes away what nobody uses any more, but nothing of the data.
    async fn unstage(&self, _name: &str) -> Result<(), StorageError> {
        Ok(())
    }

    /// Names of volumes that may be staged.
    fn staged(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a volume was brought to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Staged {
    /// As it shall be.
    Whole,
    /// It can be used, but could not be made as large as it shall be, and why.
    Smaller(String),
    /// The same, because it is in use: it grows when it is brought anew.
    InUse(String),
}

/// Where a volume is on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    /// What must be there, as for hostPath volumes.
    pub kind: String,
    /// Whether the pod's `fsGroup` becomes the owner of its files.
    pub takes_group: bool,
}

#[derive(Debug, Error)]
pub enum StorageError {
    #[error(
        "persistentvolume {0:?} is of a type that this node cannot mount (it can: hostPath, local, nfs, csi, the class local)"
    )]
    Unsupported(String),
    #[error("{0:?} is no name for a volume")]
    Name(String),
    #[error("persistentvolume {volume:?} is on node {node:?}, not on this one")]
    Elsewhere { volume: String, node: String },
    #[error("{program} failed: {message}")]
    Program { program: &'static str, message: String },
    #[error("{program} is not installed: install the package {package}")]
    Missing { program: &'static str, package: &'static str },
    #[error(
        "the disk of this node has {free} bytes free, the volume needs {wanted}: ask for less, or make room"
    )]
    Full { free: u64, wanted: u64 },
    #[error(
        "the image of volume {volume:?} was made and is gone from {path}: its data is lost unless you put it back"
    )]
    Lost { volume: String, path: PathBuf },
    #[error("the file system in {path} is damaged: repair it with fsck, nothing was changed ({message})")]
    Damaged { path: PathBuf, message: String },
    #[error("the device {} is neither formatted nor mounted: {reason}", device.display())]
    Device { device: PathBuf, reason: String },
    #[error("the snapshot {0:?} is not on this node: it was removed, or is another node's")]
    NoSnapshot(String),
    #[error(
        "the image of volume {0:?} is made when a pod first uses the volume: there is nothing to copy yet"
    )]
    Unmade(String),
    #[error("volume uses the ReadWriteOncePod access mode and is already in use by another pod")]
    Exclusive,
    #[error(transparent)]
    Unmount(#[from] UnmountError),
    #[error(transparent)]
    Removal(#[from] RemovalError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the step was given up: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// The volumes of this node.
pub struct Storage {
    plugins: Vec<Box<dyn VolumePlugin>>,
    pods: PathBuf,
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// A pod has let its volumes go.
    released: Notify,
}

impl Storage {
    pub fn new(config: &Config) -> Self {
        let images = image::Images::new(config);
        Storage {
            plugins: vec![
                // Before directories: what is a device is not one.
                Box::new(disk::Disks::new(config)),
                Box::new(path::HostPath),
                Box::new(images),
                Box::new(nfs::Nfs::new(config)),
            ],
            pods: config.pods_dir(),
            locks: Mutex::default(),
            released: Notify::new(),
        }
    }

    /// Brings a volume to the node for one pod, which is noted as its user first.
    pub async fn stage(
        &self,
        volume: &core::PersistentVolume,
        user: &User<'_>,
        has_ended: HasEnded<'_>,
    ) -> Result<(Place, Staged), StorageError> {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let plugin = self.plugins.iter().find(|plugin| plugin.serves(volume));
        let plugin = plugin.ok_or_else(|| StorageError::Unsupported(name.clone()))?;
        let place = plugin.place(volume)?;
        let mut staged = {
            let _lock = self.lock(&name).await;
            let modes = volume.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
            let is_exclusive = modes.into_iter().any(|mode| mode == "ReadWriteOncePod");
            if is_exclusive && users::is_used_by_other(&self.pods, &place.path, user.pod)? {
                return Err(StorageError::Exclusive);
            }
            users::note(&self.pods, user, &place.path)?;
            plugin.stage(volume).await?
        };
        if user.is_start && matches!(staged, Staged::InUse(_)) {
            staged = self.stage_anew(plugin.as_ref(), volume, user, has_ended).await?;
        }
        if let Some(group) = user.group.filter(|_| place.takes_group && place.kind == "Directory") {
            let _lock = self.lock(&name).await;
            let (path, only_mismatch) = (place.path.clone(), user.only_root_mismatch);
            tokio::task::spawn_blocking(move || fs_group::apply(&path, group, only_mismatch)).await??;
        }
        Ok((place, staged))
    }

    /// What is in use only because a pod that is over has not let it go yet, or the kernel, is waited for: else the pod would
    /// have the old size for all its life.
    async fn stage_anew(
        &self,
        plugin: &dyn VolumePlugin,
        volume: &core::PersistentVolume,
        user: &User<'_>,
        has_ended: HasEnded<'_>,
    ) -> Result<Staged, StorageError> {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let begun = Instant::now();
        loop {
            {
                let _lock = self.lock(name).await;
                let others = users::others(&self.pods, name, user.pod)?;
                if others.is_empty() {
                    plugin.unstage(name).await?;
                }
                let staged = plugin.stage(volume).await?;
                let is_to_wait = begun.elapsed() < RELEASE && others.iter().all(|pod| has_ended(pod));
                if !is_to_wait || !matches!(staged, Staged::InUse(_)) {
                    return Ok(staged);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes away what no pod uses any more. What cannot be taken away now is tried again later.
    pub async fn release_unused(&self) {
        for plugin in &self.plugins {
            for name in plugin.staged() {
                let _lock = self.lock(&name).await;
                if let Err(error) = self.release(plugin.as_ref(), &name).await {
                    tracing::warn!(volume = name, %error, "cannot release a volume that nobody uses");
                }
            }
        }
        self.released.notify_one();
    }

    async fn release(&self, plugin: &dyn VolumePlugin, name: &str) -> Result<(), StorageError> {
        match users::any(&self.pods, name)? {
            true => Ok(()),
            false => plugin.unstage(name).await,
        }
    }

    /// Until a pod has let its volumes go.
    pub async fn released(&self) {
        self.released.notified().await;
    }

    /// Nobody else does anything with a volume meanwhile.
    pub async fn lock(&self, name: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock();
            // Those that nobody holds are only names.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(name.to_owned()).or_default().clone()
        };
        lock.lock_owned().await
    }
}

/// Takes all volumes away from a node that is taken apart; their data stays.
pub fn put_all_away(config: &Config) -> Result<(), StorageError> {
    image::Images::new(config).put_all_away()
}

/// A pod's volume that is a claim.
#[derive(Debug, Clone, Copy)]
pub struct User<'a> {
    pub pod: &'a str,
    /// The name of the volume in the pod.
    pub volume: &'a str,
    /// The group that shall own the files.
    pub group: Option<u32>,
    /// Only if the volume's root does not belong to it.
    pub only_root_mismatch: bool,
    /// Nothing of the pod runs yet.
    pub is_start: bool,
}

/// A name that is one part of a path, and leads nowhere else.
pub fn check_name(name: &str) -> Result<&str, StorageError> {
    let is_plain = Path::new(name).file_name().is_some_and(|file| file == name) && !name.starts_with('.');
    if is_plain { Ok(name) } else { Err(StorageError::Name(name.to_owned())) }
}
