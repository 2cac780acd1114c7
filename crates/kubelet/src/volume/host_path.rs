//! hostPath volumes: a path of the node, checked for what the pod expects there.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use super::payload::Sources;
use super::{PodVolumePlugin, PodVolumes, SetUpError};

pub struct HostPath;

impl PodVolumePlugin for HostPath {
    fn serves(&self, volume: &core::Volume) -> bool {
        volume.host_path.is_some()
    }

    fn path(&self, _: &PodVolumes<'_>, volume: &core::Volume) -> PathBuf {
        volume.host_path.as_ref().map(|source| PathBuf::from(&source.path)).unwrap_or_default()
    }

    fn set_up(&self, _: &PodVolumes<'_>, volume: &core::Volume, _: &Sources<'_>) -> Result<(), SetUpError> {
        let Some(source) = &volume.host_path else { return Err(SetUpError::Unsupported) };
        Ok(check(&source.path, source.type_.as_deref().unwrap_or_default())?)
    }
}

#[derive(Debug, Error)]
pub enum HostPathError {
    #[error("hostPath type check failed: {path} is not {expected}")]
    Type { path: String, expected: &'static str },
    #[error("unknown hostPath type {0:?}")]
    UnknownType(String),
    #[error("cannot make {path}: {source}")]
    Create { path: String, source: io::Error },
}

pub fn check(path: &str, kind: &str) -> Result<(), HostPathError> {
    let target = Path::new(path);
    let create_error = |source| HostPathError::Create { path: path.to_owned(), source };
    match kind {
        "DirectoryOrCreate" if !target.exists() => {
            fs::create_dir_all(target).map_err(create_error)?;
            fs::set_permissions(target, fs::Permissions::from_mode(0o755)).map_err(create_error)?;
        }
        "FileOrCreate" if !target.exists() => {
            fs::write(target, []).map_err(create_error)?;
            fs::set_permissions(target, fs::Permissions::from_mode(0o644)).map_err(create_error)?;
        }
        _ => {}
    }
    let metadata = fs::metadata(target);
    let is = |test: fn(&fs::FileType) -> bool| metadata.as_ref().is_ok_and(|m| test(&m.file_type()));
    let (fits, expected) = match kind {
        "" => (true, ""),
        "Directory" | "DirectoryOrCreate" => (is(fs::FileType::is_dir), "a directory"),
        "File" | "FileOrCreate" => (is(fs::FileType::is_file), "a file"),
        "Socket" => (is(FileTypeExt::is_socket), "a socket"),
        "CharDevice" => (is(FileTypeExt::is_char_device), "a character device"),
        "BlockDevice" => (is(FileTypeExt::is_block_device), "a block device"),
        other => return Err(HostPathError::UnknownType(other.to_owned())),
    };
    if fits { Ok(()) } else { Err(HostPathError::Type { path: path.to_owned(), expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("file"), "x").unwrap();
        let check = |name: &str, kind: &str, ok: bool| {
            assert_eq!(super::check(&path(name), kind).is_ok(), ok, "{name} {kind}");
        };
        check("nothing", "", true);
        check("nothing", "Directory", false);
        check("nothing", "File", false);
        check("made", "DirectoryOrCreate", true);
        check("made", "Directory", true);
        check("made", "File", false);
        check("made-file", "FileOrCreate", true);
        check("file", "File", true);
        check("file", "DirectoryOrCreate", false);
        check("file", "Socket", false);
        check("no/parent/file", "FileOrCreate", false);
        assert!(super::check("/dev/null", "CharDevice").is_ok());
        check("file", "Nonsense", false);
    }
}
