//! `local` volumes whose path is a block device, of mode `Filesystem`: the file system on the device, mounted once per node.
//!
//! A blank device gets a file system first, of the volume's `fsType` or ext4. One that holds anything that `blkid` knows, be
//! it a file system, a partition table or a part of a disk array, is never formatted: it is mounted, or refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use minik8s_datadir::is_mount_point;

use super::program::{output, run, said};
use super::{Place, Staged, StorageError, VolumePlugin, check_name, ext4};
use crate::Config;

const UTIL_LINUX: &str = "util-linux";
const MOUNT: &str = "mount";
const DEFAULT_TYPE: &str = "ext4";
/// What blkid ends with when it knows nothing that is on a device.
const NOTHING_FOUND: i32 = 2;
/// In what fsck ends with: errors are left.
const ERRORS_LEFT: i32 = 4;

#[derive(Clone)]
pub struct Disks {
    dir: PathBuf,
}

struct Wanted {
    name: String,
    device: PathBuf,
    fs_type: Option<String>,
    options: Vec<String>,
}

/// What is on a device.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    FileSystem(String),
    /// A partition table, or what cannot be told apart.
    Other(String),
}

#[async_trait]
impl VolumePlugin for Disks {
    fn serves(&self, volume: &core::PersistentVolume) -> bool {
        let Some(spec) = &volume.spec else { return false };
        let path = spec.local.as_ref().map(|source| &source.path);
        let is_device = path.and_then(|path| fs::metadata(path).ok());
        spec.volume_mode.as_deref() != Some("Block")
            && is_device.is_some_and(|found| found.file_type().is_block_device())
    }

    fn place(&self, volume: &core::PersistentVolume) -> Result<Place, StorageError> {
        let path = self.mount_of(&wanted(volume)?.name);
        Ok(Place { path, kind: "Directory".to_owned(), takes_group: true })
    }

    async fn stage(&self, volume: &core::PersistentVolume) -> Result<Staged, StorageError> {
        let (disks, wanted) = (self.clone(), wanted(volume)?);
        tokio::task::spawn_blocking(move || disks.bring(&wanted)).await?.map(|()| Staged::Whole)
    }

    async fn unstage(&self, name: &str) -> Result<(), StorageError> {
        let mount = self.mount_of(check_name(name)?);
        tokio::task::spawn_blocking(move || ext4::unmount(&mount)).await?
    }

    fn staged(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let staged = entries.flatten().filter(|entry| is_mount_point(&entry.path().join(MOUNT)));
        staged.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl Disks {
    pub fn new(config: &Config) -> Self {
        Disks { dir: config.disks_dir() }
    }

    fn mount_of(&self, name: &str) -> PathBuf {
        self.dir.join(name).join(MOUNT)
    }

    fn bring(&self, wanted: &Wanted) -> Result<(), StorageError> {
        let mount = self.mount_of(&wanted.name);
        fs::create_dir_all(&mount)?;
        if is_mount_point(&mount) {
            return Ok(());
        }
        let (device, is_read_only) = (&wanted.device, wanted.options.iter().any(|option| option == "ro"));
        let kept = |reason: String| StorageError::Device { device: device.clone(), reason };
        let found = match content(device)? {
            Content::Other(what) => return Err(kept(format!("it holds {what}"))),
            Content::Nothing if is_read_only => {
                return Err(kept("it is blank, and the volume is mounted read-only".to_owned()));
            }
            Content::Nothing => {
                let fs_type = wanted.fs_type.as_deref().unwrap_or(DEFAULT_TYPE);
                format(device, fs_type)?;
                fs_type.to_owned()
            }
            Content::FileSystem(found) => {
                // Even of a clean file system, fsck writes when it was there: one that is refused stays as it is.
                if !is_read_only && wanted.fs_type.as_ref().is_none_or(|fs_type| is_akin(fs_type, &found)) {
                    check(device)?;
                }
                found
            }
        };
        let fs_type = wanted.fs_type.as_ref().unwrap_or(&found);
        mount_device(device, fs_type, &wanted.options, &mount).map_err(|error| match found == *fs_type {
            true => error,
            false => {
                kept(format!("it holds a file system {found}, the volume says fsType {fs_type}: {error}"))
            }
        })
    }
}

fn wanted(volume: &core::PersistentVolume) -> Result<Wanted, StorageError> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let spec = volume.spec.clone().unwrap_or_default();
    let source = spec.local.ok_or_else(|| StorageError::Unsupported(name.clone()))?;
    Ok(Wanted {
        name: check_name(&name)?.to_owned(),
        device: source.path.into(),
        fs_type: source.fs_type.filter(|name| !name.is_empty()),
        options: spec.mount_options.unwrap_or_default(),
    })
}

/// Asks the device itself, not what `blkid` remembers of it.
fn content(device: &Path) -> Result<Content, StorageError> {
    let options = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export"].map(Path::new);
    let asked = output("blkid", UTIL_LINUX, options.into_iter().chain([device]))?;
    match asked.status.code() {
        Some(0) => Ok(told(&String::from_utf8_lossy(&asked.stdout))),
        Some(NOTHING_FOUND) => Ok(Content::Nothing),
        _ => Err(StorageError::Program { program: "blkid", message: said(&asked) }),
    }
}

fn told(text: &str) -> Content {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    // A file system can begin with what looks like a table of partitions.
    match (value("TYPE"), value("PTTYPE")) {
        (Some(fs_type), _) => Content::FileSystem(fs_type.to_owned()),
        (None, Some(table)) => Content::Other(format!("a partition table ({table})")),
        (None, None) => Content::Other("something that blkid does not name".to_owned()),
    }
}

fn format(device: &Path, fs_type: &str) -> Result<(), StorageError> {
    let own: &[&str] = match fs_type {
        "ext2" | "ext3" | "ext4" => &["-q", "-F", "-m", "0"],
        "xfs" => &["-q", "-f"],
        _ => &[],
    };
    tracing::info!(device = %device.display(), fs_type, "makes a file system on a blank device");
    let options = ["-t", fs_type].into_iter().chain(own.iter().copied()).map(Path::new);
    run("mkfs", UTIL_LINUX, options.chain([device])).map(drop)
}

/// Whether one can be mounted as the other: ext4 mounts what ext2 and ext3 have left.
fn is_akin(fs_type: &str, found: &str) -> bool {
    fs_type == found || [fs_type, found].iter().all(|name| matches!(*name, "ext2" | "ext3" | "ext4"))
}

/// Repairs what can be repaired without loss.
fn check(device: &Path) -> Result<(), StorageError> {
    let checked = output("fsck", UTIL_LINUX, [Path::new("-a"), device])?;
    match checked.status.code() {
        Some(code) if code & ERRORS_LEFT == 0 => Ok(()),
        _ => Err(StorageError::Damaged { path: device.to_owned(), message: said(&checked) }),
    }
}

fn mount_device(device: &Path, fs_type: &str, options: &[String], dir: &Path) -> Result<(), StorageError> {
    let options = options.join(",");
    let mut arguments = vec![OsStr::new("-t"), OsStr::new(fs_type)];
    if !options.is_empty() {
        arguments.extend([OsStr::new("-o"), OsStr::new(&options)]);
    }
    arguments.extend([device.as_os_str(), dir.as_os_str()]);
    run("mount", MOUNT, arguments).map(drop)
}

#[cfg(test)]
mod tests;
