//! Volumes and snapshots as directories of the file system: `volumes/NAME` and `snapshots/NAME`, seen through a mount of the
//! whole ([`RootMount`]).
//!
//! A directory has its name only when it is complete; every call can be made again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use minik8s_csi::controller::{
    ConfirmedCapabilities, Content, CreateSnapshot, CreateVolume, CreatedSnapshot, CreatedVolume,
    ExpandVolume, ExpandedVolume, Snapshot, Time, ValidateCapabilities, ValidatedCapabilities, Volume,
};
use minik8s_csi::{AccessType, VolumeCapability};
use minik8s_datadir::{is_mount_point, remove_tree};

use crate::SharedError;
use crate::daemon::at;
use crate::engine::Engine;
use crate::part::Part;
use crate::root_mount::RootMount;

pub const VOLUMES: &str = "volumes";
pub const SNAPSHOTS: &str = "snapshots";
/// Less cannot even hold a directory.
const LEAST: u64 = 1 << 20;

/// The directory of a volume, as clients mount it.
pub fn directory(name: &str) -> Result<String, SharedError> {
    Ok(format!("/{VOLUMES}/{}", plain(name)?))
}

/// A name that is one part of a path, and leads nowhere else.
pub fn plain(name: &str) -> Result<&str, SharedError> {
    let is_plain = Path::new(name).file_name().is_some_and(|file| file == name) && !name.starts_with('.');
    if is_plain { Ok(name) } else { Err(SharedError::Name(name.to_owned())) }
}

/// The whole file system, as long as a call lasts.
pub struct Root<'a> {
    engine: &'a dyn Engine,
    part: &'a Part,
    path: PathBuf,
}

impl<'a> Root<'a> {
    pub fn mount(engine: &'a dyn Engine, part: &'a Part, mount: &mut RootMount) -> Result<Self, SharedError> {
        Ok(Root { engine, part, path: mount.bring(engine, part)? })
    }

    pub fn is_mounted(&self) -> bool {
        is_mount_point(&self.path)
    }

    pub fn create(&self, call: &CreateVolume) -> Result<CreatedVolume, SharedError> {
        if call.volume_capabilities.iter().any(is_block) {
            return Err(SharedError::Block);
        }
        let volumes = self.path.join(VOLUMES);
        let volume = volumes.join(plain(&call.name)?);
        let bytes = call.capacity_range.unwrap_or_default().required_bytes;
        let bytes = u64::try_from(bytes).unwrap_or(0).max(LEAST);
        if !volume.exists() {
            let new = format!(".new-{}", call.name);
            remove_tree(&volumes, &new)?;
            let path = volumes.join(&new);
            match call.volume_content_source.as_ref().and_then(|source| source.content.as_ref()) {
                // It has the copies of the directory that it is in.
                None => fs::create_dir(&path).map_err(at(&path))?,
                Some(content) => {
                    self.engine.copy(&self.existing(content)?, &path)?;
                    self.engine.adopt(self.part, &path)?;
                }
            }
            self.engine.limit(self.part, &path, bytes)?;
            fs::rename(&path, &volume).map_err(at(&volume))?;
        }
        let volume = Volume {
            capacity_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            volume_id: call.name.clone(),
            content_source: call.volume_content_source.clone(),
            ..Volume::default()
        };
        Ok(CreatedVolume { volume: Some(volume) })
    }

    fn existing(&self, content: &Content) -> Result<PathBuf, SharedError> {
        let (part, name) = match content {
            Content::Snapshot(source) => (SNAPSHOTS, &source.snapshot_id),
            Content::Volume(source) => (VOLUMES, &source.volume_id),
        };
        let path = self.path.join(part).join(plain(name)?);
        if path.exists() { Ok(path) } else { Err(SharedError::NotFound(name.clone())) }
    }

    pub fn validate(&self, call: &ValidateCapabilities) -> Result<ValidatedCapabilities, SharedError> {
        if call.volume_capabilities.is_empty() {
            return Err(SharedError::Call("volume_capabilities are missing".to_owned()));
        }
        if !self.path.join(VOLUMES).join(plain(&call.volume_id)?).exists() {
            return Err(SharedError::NotFound(call.volume_id.clone()));
        }
        let mut answer = ValidatedCapabilities::default();
        match call.volume_capabilities.iter().any(is_block) {
            true => answer.message = SharedError::Block.to_string(),
            false => {
                let volume_capabilities = call.volume_capabilities.clone();
                answer.confirmed = Some(ConfirmedCapabilities { volume_capabilities });
            }
        }
        Ok(answer)
    }

    pub fn expand(&self, call: &ExpandVolume) -> Result<ExpandedVolume, SharedError> {
        let volume = self.path.join(VOLUMES).join(plain(&call.volume_id)?);
        if !volume.exists() {
            return Err(SharedError::NotFound(call.volume_id.clone()));
        }
        let bytes = call.capacity_range.unwrap_or_default().required_bytes;
        self.engine.limit(self.part, &volume, u64::try_from(bytes).unwrap_or(0).max(LEAST))?;
        Ok(ExpandedVolume { capacity_bytes: bytes, node_expansion_required: false })
    }

    pub fn delete(&self, name: &str) -> Result<(), SharedError> {
        self.remove(VOLUMES, name)
    }

    pub fn delete_snapshot(&self, name: &str) -> Result<(), SharedError> {
        self.remove(SNAPSHOTS, name)
    }

    fn remove(&self, part: &str, name: &str) -> Result<(), SharedError> {
        let parent = self.path.join(part);
        let path = parent.join(plain(name)?);
        // Nobody takes what is half removed for whole.
        let going = format!(".removed-{name}");
        if path.exists() {
            remove_tree(&parent, &going)?;
            fs::rename(&path, parent.join(&going)).map_err(at(&path))?;
        }
        Ok(remove_tree(&parent, &going)?)
    }

    pub fn snapshot(&self, call: &CreateSnapshot) -> Result<CreatedSnapshot, SharedError> {
        let volume = self.path.join(VOLUMES).join(plain(&call.source_volume_id)?);
        let snapshots = self.path.join(SNAPSHOTS);
        let snapshot = snapshots.join(plain(&call.name)?);
        if !snapshot.exists() {
            if !volume.exists() {
                return Err(SharedError::NotFound(call.source_volume_id.clone()));
            }
            let new = format!(".new-{}", call.name);
            remove_tree(&snapshots, &new)?;
            self.engine.copy(&volume, &snapshots.join(&new))?;
            fs::rename(snapshots.join(&new), &snapshot).map_err(at(&snapshot))?;
        }
        let made = fs::metadata(&snapshot).map_err(at(&snapshot))?;
        let time = std::os::unix::fs::MetadataExt::ctime(&made);
        let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = time.min(i64::try_from(now).unwrap_or(i64::MAX));
        let snapshot = Snapshot {
            // Whatever fits into the volume fits into a claim of its size.
            size_bytes: 0,
            snapshot_id: call.name.clone(),
            source_volume_id: call.source_volume_id.clone(),
            creation_time: Some(Time { seconds, nanos: 0 }),
            ready_to_use: true,
        };
        Ok(CreatedSnapshot { snapshot: Some(snapshot) })
    }
}

pub fn is_block(capability: &VolumeCapability) -> bool {
    matches!(capability.access_type, Some(AccessType::Block(_)))
}
