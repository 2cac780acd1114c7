//! The class `local`: a volume is an image in the data dir, mounted through a loop device.
//!
//! `volumes/NAME/image` is the data; `volumes/NAME/mount` is where it is mounted (`device`, for a raw block device). Beside
//! the directory, `NAME.made` says that the image was made once: one that is gone is never replaced by an empty one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use minik8s_datadir::{is_mount_point, remove_tree};
use minik8s_meta::local_volume::{DRIVER, NODE_ATTRIBUTE, SNAPSHOT_ATTRIBUTE, SOURCE_ATTRIBUTE};
use nix::sys::statvfs::statvfs;

use super::{Place, Staged, StorageError, VolumePlugin, block, check_name, ext4, loop_device};
use crate::{Config, quantity};

pub(super) const IMAGE: &str = "image";
const MOUNT: &str = "mount";
const DEVICE: &str = "device";

#[derive(Clone)]
pub struct Images {
    dir: PathBuf,
    pub(super) snapshots: PathBuf,
    pub(super) node: String,
}

/// What a new volume starts with.
#[derive(Clone)]
enum Source {
    /// Another volume of this node.
    Volume(String),
    /// A snapshot of this node.
    Snapshot(String),
}

/// What the agent needs to know of such a volume.
#[derive(Clone)]
struct Wanted {
    name: String,
    size: u64,
    is_block: bool,
    options: Vec<String>,
    source: Option<Source>,
}

#[async_trait]
impl VolumePlugin for Images {
    fn serves(&self, volume: &core::PersistentVolume) -> bool {
        csi(volume).is_some()
    }

    fn place(&self, volume: &core::PersistentVolume) -> Result<Place, StorageError> {
        let wanted = self.wanted(volume)?;
        let (file, kind) = if wanted.is_block { (DEVICE, "BlockDevice") } else { (MOUNT, "Directory") };
        Ok(Place { path: self.dir.join(&wanted.name).join(file), kind: kind.to_owned(), takes_group: true })
    }

    async fn stage(&self, volume: &core::PersistentVolume) -> Result<Staged, StorageError> {
        let (images, wanted) = (self.clone(), self.wanted(volume)?);
        tokio::task::spawn_blocking(move || images.bring(&wanted)).await?
    }

    async fn unstage(&self, name: &str) -> Result<(), StorageError> {
        let dir = self.dir.join(check_name(name)?);
        tokio::task::spawn_blocking(move || put_away(&dir)).await?
    }

    fn staged(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let staged = entries.flatten().filter(|entry| {
            is_mount_point(&entry.path().join(MOUNT))
                || fs::symlink_metadata(entry.path().join(DEVICE)).is_ok()
        });
        staged.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl Images {
    pub fn new(config: &Config) -> Self {
        Images {
            dir: config.volumes_dir(),
            snapshots: config.volume_snapshots_dir(),
            node: config.node_name.clone(),
        }
    }

    pub fn is_staged(&self, name: &str) -> bool {
        is_mount_point(&self.dir.join(name).join(MOUNT))
            || fs::symlink_metadata(self.dir.join(name).join(DEVICE)).is_ok()
    }

    /// Whether the image of a volume was made once.
    pub(super) fn is_made(&self, name: &str) -> bool {
        self.dir.join(made(name)).exists()
    }

    /// Removes a volume that nobody uses, with its data. What is mounted is never removed. False if there was none.
    pub fn remove(&self, name: &str) -> Result<bool, StorageError> {
        let dir = self.dir.join(check_name(name)?);
        let was_there = dir.exists() || self.dir.join(made(name)).exists();
        put_away(&dir)?;
        remove_tree(&self.dir, name)?;
        // Last: as long as it is there, nobody takes what is left for a new volume.
        remove_tree(&self.dir, made(name))?;
        Ok(was_there)
    }

    fn wanted(&self, volume: &core::PersistentVolume) -> Result<Wanted, StorageError> {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let csi = csi(volume).ok_or_else(|| StorageError::Unsupported(name.clone()))?;
        check_name(&name)?;
        let attribute = |key: &str| csi.volume_attributes.as_ref().and_then(|all| all.get(key)).cloned();
        match attribute(NODE_ATTRIBUTE) {
            Some(node) if node == self.node => {}
            node => return Err(StorageError::Elsewhere { volume: name, node: node.unwrap_or_default() }),
        }
        let spec = volume.spec.as_ref();
        let size = spec.and_then(|spec| quantity::value(&spec.capacity.as_ref()?.get("storage")?.0));
        let snapshot = attribute(SNAPSHOT_ATTRIBUTE).map(Source::Snapshot);
        let source = snapshot.or_else(|| attribute(SOURCE_ATTRIBUTE).map(Source::Volume));
        if let Some(Source::Volume(source) | Source::Snapshot(source)) = &source {
            check_name(source)?;
        }
        Ok(Wanted {
            size: u64::try_from(size.unwrap_or(0)).unwrap_or(0),
            is_block: spec.is_some_and(|spec| spec.volume_mode.as_deref() == Some("Block")),
            options: spec.and_then(|spec| spec.mount_options.clone()).unwrap_or_default(),
            source,
            name,
        })
    }

    fn bring(&self, wanted: &Wanted) -> Result<Staged, StorageError> {
        let dir = self.dir.join(&wanted.name);
        let image = dir.join(IMAGE);
        if !image.exists() {
            self.make(wanted, &dir, &image)?;
        }
        self.note_made(&wanted.name)?;
        // One that cannot grow is brought as it is: whoever uses it goes on with what it has.
        let staged = match lengthen(&image, wanted.size) {
            Err(error @ StorageError::Full { .. }) => Staged::Smaller(error.to_string()),
            other => other.map(|()| Staged::Whole)?,
        };
        if wanted.is_block {
            return block::attach(&image, &dir.join(DEVICE)).map(|()| staged);
        }
        let mount = dir.join(MOUNT);
        if ext4::is_unused(&image) {
            return ext4::mount(&image, &mount, &wanted.options).map(|()| staged);
        }
        // Also where it is not ours to see: a file system that is in use is never checked or grown from outside.
        let is_in_use = is_mount_point(&mount) || !loop_device::loop_devices(&image)?.is_empty();
        if !is_in_use {
            ext4::check(&image)?;
            ext4::grow(&image)?;
        }
        ext4::mount(&image, &mount, &wanted.options)?;
        // Whoever uses it goes on with what it has.
        let grown = if is_in_use { ext4::grow_in_use(&image) } else { Ok(()) };
        Ok(grown.map_or_else(|error| Staged::InUse(error.to_string()), |()| staged))
    }

    fn make(&self, wanted: &Wanted, dir: &Path, image: &Path) -> Result<(), StorageError> {
        let made = self.dir.join(made(&wanted.name));
        if made.exists() {
            return Err(StorageError::Lost { volume: wanted.name.clone(), path: image.to_owned() });
        }
        fs::create_dir_all(dir)?;
        check_space(dir, wanted.size)?;
        match &wanted.source {
            Some(Source::Volume(source)) => self.copy(source, image, wanted.size)?,
            Some(Source::Snapshot(name)) => self.restore(name, image, wanted.size)?,
            None => ext4::make(image, wanted.size, wanted.is_block)?,
        }
        self.note_made(&wanted.name)
    }

    /// Also for an image whose maker was killed before it could say so.
    fn note_made(&self, name: &str) -> Result<(), StorageError> {
        let made = self.dir.join(made(name));
        if !made.exists() {
            fs::File::create(made)?.sync_all()?;
        }
        Ok(())
    }

    /// Makes a volume before a pod comes: while its claim is bound, time is saved; and one that starts with other content
    /// gets it before that goes. What fails here is told to the pod, except for the content.
    pub fn make_ahead(&self, volume: &core::PersistentVolume) -> Result<(), StorageError> {
        let wanted = self.wanted(volume)?;
        let dir = self.dir.join(&wanted.name);
        let image = dir.join(IMAGE);
        if image.exists() {
            return self.note_made(&wanted.name);
        }
        let made = self.make(&wanted, &dir, &image);
        if wanted.source.is_some() { made } else { Ok(()) }
    }

    /// Whether a volume is still to be made of a snapshot.
    pub fn awaits_snapshot(&self, volume: &core::PersistentVolume, snapshot: &str) -> bool {
        let Ok(wanted) = self.wanted(volume) else { return false };
        let is_its = matches!(&wanted.source, Some(Source::Snapshot(name)) if name == snapshot);
        is_its && !self.is_made(&wanted.name)
    }

    /// A file system that is in use is written out and held still while its image is copied.
    pub(super) fn copy(&self, source: &str, image: &Path, size: u64) -> Result<(), StorageError> {
        let dir = self.dir.join(source);
        let from = dir.join(IMAGE);
        if !from.exists() {
            return Err(StorageError::Lost { volume: source.to_owned(), path: from });
        }
        let device = dir.join(DEVICE);
        if device.exists() {
            fs::File::open(device)?.sync_all()?;
        }
        let _still = is_mount_point(&dir.join(MOUNT)).then(|| Still::hold(dir.join(MOUNT))).transpose()?;
        ext4::copy(&from, image, size)
    }

    /// Gives back what was deleted in those that pods use.
    pub fn trim_all(&self) {
        self.staged().iter().for_each(|name| ext4::trim(&self.dir.join(name).join(MOUNT)));
    }

    /// Unmounts all of them, for a node that is taken apart.
    pub fn put_all_away(&self) -> Result<(), StorageError> {
        self.staged().iter().try_for_each(|name| put_away(&self.dir.join(name)))
    }

    /// Lets go what an agent that was killed has held still.
    pub fn thaw_all(&self) {
        self.staged().iter().for_each(|name| drop(Still(self.dir.join(name).join(MOUNT))));
    }
}

/// A mounted file system that nobody writes to.
struct Still(PathBuf);

impl Still {
    fn hold(mount: PathBuf) -> Result<Still, StorageError> {
        super::program::run("fsfreeze", "util-linux", [Path::new("-f"), &mount])?;
        Ok(Still(mount))
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        // Fails where nothing is held, which is what we want.
        let _ = super::program::run("fsfreeze", "util-linux", [Path::new("-u"), &self.0]);
    }
}

/// Whether the disk of a path has room for so many bytes more.
fn check_space(path: &Path, wanted: u64) -> Result<(), StorageError> {
    let space = statvfs(path).map_err(io::Error::from)?;
    let free = space.blocks_available() * space.fragment_size();
    if free < wanted { Err(StorageError::Full { free, wanted }) } else { Ok(()) }
}

/// Makes an image at least so large, if the disk has room for what is added.
fn lengthen(image: &Path, size: u64) -> Result<(), StorageError> {
    let more = size.saturating_sub(fs::metadata(image)?.len());
    if more > 0 {
        check_space(image, more)?;
    }
    ext4::lengthen(image, size)
}

fn made(name: &str) -> String {
    format!("{name}.made")
}

fn put_away(dir: &Path) -> Result<(), StorageError> {
    ext4::trim(&dir.join(MOUNT));
    ext4::unmount(&dir.join(MOUNT))?;
    let device = dir.join(DEVICE);
    if fs::symlink_metadata(&device).is_ok() {
        block::detach(&dir.join(IMAGE))?;
        fs::remove_file(device)?;
    }
    Ok(())
}

fn csi(volume: &core::PersistentVolume) -> Option<&core::CSIPersistentVolumeSource> {
    volume.spec.as_ref()?.csi.as_ref().filter(|csi| csi.driver == DRIVER)
}

#[cfg(test)]
mod tests;
