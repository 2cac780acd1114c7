//! Volumes and snapshots as directories of the file system: `volumes/NAME` and `snapshots/NAME`, seen through a mount of the
//! whole ([`RootMount`]).
//!
//! A directory has its name only when it is complete; every call can be made again, and one that wants something else of
//! the same name is refused. Nothing is ever made smaller.

mod record;
#[cfg(test)]
mod tests;

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
use record::Record;

pub use record::RECORDS;

pub const VOLUMES: &str = "volumes";
pub const SNAPSHOTS: &str = "snapshots";
/// Less cannot even hold a directory.
const LEAST: i64 = 1 << 20;

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
        let source = call.volume_content_source.as_ref().and_then(|source| source.content.as_ref());
        let range = call.capacity_range.unwrap_or_default();
        let mut record = Record { bytes: size(range.required_bytes), source: origin(source) };
        if is_there(&volume)? {
            if let Some(before) = Record::read(&self.path, VOLUMES, &call.name)? {
                let is_large = before.bytes >= record.bytes;
                let is_small = range.limit_bytes == 0 || before.bytes <= size(range.limit_bytes);
                if before.source != record.source || !is_large || !is_small {
                    return Err(SharedError::Exists(call.name.clone()));
                }
                record = before;
            }
        } else {
            let new = format!(".new-{}", call.name);
            remove_tree(&volumes, &new)?;
            let path = volumes.join(&new);
            match source {
                // It has the copies of the directory that it is in.
                None => fs::create_dir(&path).map_err(at(&path))?,
                Some(content) => {
                    let (kind, name) = place(content);
                    self.engine.copy(&self.find(kind, name)?, &path)?;
                    self.engine.adopt(self.part, &path)?;
                }
            }
            self.engine.limit(self.part, &path, record.bytes)?;
            record.write(&self.path, VOLUMES, &call.name)?;
            fs::rename(&path, &volume).map_err(at(&volume))?;
        }
        let volume = Volume {
            capacity_bytes: i64::try_from(record.bytes).unwrap_or(i64::MAX),
            volume_id: call.name.clone(),
            content_source: call.volume_content_source.clone(),
            ..Volume::default()
        };
        Ok(CreatedVolume { volume: Some(volume) })
    }

    /// The directory of a volume, which must be there.
    pub fn volume(&self, name: &str) -> Result<PathBuf, SharedError> {
        self.find(VOLUMES, name)
    }

    fn find(&self, kind: &str, name: &str) -> Result<PathBuf, SharedError> {
        let path = self.path.join(kind).join(plain(name)?);
        if is_there(&path)? { Ok(path) } else { Err(SharedError::NotFound(name.to_owned())) }
    }

    pub fn validate(&self, call: &ValidateCapabilities) -> Result<ValidatedCapabilities, SharedError> {
        self.volume(&call.volume_id)?;
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
        let volume = self.volume(&call.volume_id)?;
        let wanted = size(call.capacity_range.unwrap_or_default().required_bytes);
        let record = Record::read(&self.path, VOLUMES, &call.volume_id)?;
        let bytes = record.as_ref().map_or(wanted, |record| record.bytes.max(wanted));
        self.engine.limit(self.part, &volume, bytes)?;
        if let Some(record) = record {
            Record { bytes, ..record }.write(&self.path, VOLUMES, &call.volume_id)?;
        }
        let capacity_bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        Ok(ExpandedVolume { capacity_bytes, node_expansion_required: false })
    }

    pub fn delete(&self, name: &str) -> Result<(), SharedError> {
        self.remove(VOLUMES, name)
    }

    pub fn delete_snapshot(&self, name: &str) -> Result<(), SharedError> {
        self.remove(SNAPSHOTS, name)
    }

    fn remove(&self, kind: &str, name: &str) -> Result<(), SharedError> {
        let parent = self.path.join(kind);
        let path = parent.join(plain(name)?);
        // Nobody takes what is half removed for whole.
        let going = format!(".removed-{name}");
        if is_there(&path)? {
            remove_tree(&parent, &going)?;
            fs::rename(&path, parent.join(&going)).map_err(at(&path))?;
        }
        remove_tree(&parent, &going)?;
        Record::remove(&self.path, kind, name)
    }

    pub fn snapshot(&self, call: &CreateSnapshot) -> Result<CreatedSnapshot, SharedError> {
        let snapshots = self.path.join(SNAPSHOTS);
        let snapshot = snapshots.join(plain(&call.name)?);
        let record = Record { bytes: 0, source: format!("{VOLUMES}/{}", plain(&call.source_volume_id)?) };
        if is_there(&snapshot)? {
            let before = Record::read(&self.path, SNAPSHOTS, &call.name)?;
            if before.is_some_and(|before| before != record) {
                return Err(SharedError::Exists(call.name.clone()));
            }
        } else {
            let volume = self.volume(&call.source_volume_id)?;
            let new = format!(".new-{}", call.name);
            remove_tree(&snapshots, &new)?;
            self.engine.copy(&volume, &snapshots.join(&new))?;
            record.write(&self.path, SNAPSHOTS, &call.name)?;
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

/// Not taken for gone where nobody answers.
fn is_there(path: &Path) -> Result<bool, SharedError> {
    path.try_exists().map_err(at(path))
}

/// What a volume has that was asked to have so much.
pub fn size(bytes: i64) -> u64 {
    bytes.max(LEAST).unsigned_abs()
}

fn place(content: &Content) -> (&'static str, &str) {
    match content {
        Content::Snapshot(source) => (SNAPSHOTS, source.snapshot_id.as_str()),
        Content::Volume(source) => (VOLUMES, source.volume_id.as_str()),
    }
}

fn origin(source: Option<&Content>) -> String {
    source.map(place).map(|(kind, name)| format!("{kind}/{name}")).unwrap_or_default()
}

pub fn is_block(capability: &VolumeCapability) -> bool {
    matches!(capability.access_type, Some(AccessType::Block(_)))
}
