//! nfs volumes: a directory of a server of the user's own, mounted once per node.
//!
//! The directory of a claim is made on the server by mounting its parent. Nothing on the server is ever removed.

use std::fs;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use minik8s_datadir::is_mount_point;

use super::program::run;
use super::{Place, Staged, StorageError, VolumePlugin, check_name, ext4};
use crate::Config;

const MADE_BY_US: (&str, &str) = ("pv.kubernetes.io/provisioned-by", "nfs.minik8s.io");
const PACKAGE: &str = "nfs-common";

#[derive(Clone)]
pub struct Nfs {
    dir: PathBuf,
}

struct Wanted {
    name: String,
    server: String,
    path: String,
    options: Vec<String>,
    /// The directory is a claim's and may have to be made.
    is_made: bool,
}

#[async_trait]
impl VolumePlugin for Nfs {
    fn serves(&self, volume: &core::PersistentVolume) -> bool {
        volume.spec.as_ref().is_some_and(|spec| spec.nfs.is_some())
    }

    fn place(&self, volume: &core::PersistentVolume) -> Result<Place, StorageError> {
        let path = self.mount_of(&wanted(volume)?.name);
        Ok(Place { path, kind: "Directory".to_owned(), takes_group: false })
    }

    async fn stage(&self, volume: &core::PersistentVolume) -> Result<Staged, StorageError> {
        let (nfs, wanted) = (self.clone(), wanted(volume)?);
        tokio::task::spawn_blocking(move || nfs.bring(&wanted)).await?.map(|()| Staged::Whole)
    }

    async fn unstage(&self, name: &str) -> Result<(), StorageError> {
        let mount = self.mount_of(check_name(name)?);
        tokio::task::spawn_blocking(move || ext4::unmount(&mount)).await?
    }

    fn staged(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let staged = entries.flatten().filter(|entry| is_mount_point(&entry.path().join("mount")));
        staged.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl Nfs {
    pub fn new(config: &Config) -> Self {
        Nfs { dir: config.nfs_dir() }
    }

    fn mount_of(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("mount")
    }

    fn bring(&self, wanted: &Wanted) -> Result<(), StorageError> {
        let mount = self.mount_of(&wanted.name);
        fs::create_dir_all(&mount)?;
        if is_mount_point(&mount) {
            return Ok(());
        }
        if wanted.is_made {
            self.make(wanted)?;
        }
        run("mount", PACKAGE, arguments(&wanted.server, &wanted.path, &wanted.options, &mount)).map(drop)
    }

    fn make(&self, wanted: &Wanted) -> Result<(), StorageError> {
        let Some((share, directory)) = wanted.path.rsplit_once('/') else { return Ok(()) };
        let share = if share.is_empty() { "/" } else { share };
        let whole = self.dir.join(&wanted.name).join("share");
        fs::create_dir_all(&whole)?;
        if !is_mount_point(&whole) {
            run("mount", PACKAGE, arguments(&wanted.server, share, &wanted.options, &whole))?;
        }
        let made = match fs::create_dir(whole.join(check_name(directory)?)) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        };
        ext4::unmount(&whole)?;
        Ok(made?)
    }
}

fn wanted(volume: &core::PersistentVolume) -> Result<Wanted, StorageError> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let spec = volume.spec.clone().unwrap_or_default();
    let source = spec.nfs.ok_or_else(|| StorageError::Unsupported(name.clone()))?;
    let annotations = volume.metadata.annotations.as_ref();
    let is_made = annotations.and_then(|all| all.get(MADE_BY_US.0)).is_some_and(|by| by == MADE_BY_US.1);
    let mut options = spec.mount_options.unwrap_or_default();
    if source.read_only == Some(true) {
        options.push("ro".to_owned());
    }
    Ok(Wanted {
        name: check_name(&name)?.to_owned(),
        server: source.server,
        path: source.path,
        options,
        is_made,
    })
}

/// `mount -t nfs [-o OPTIONS] SERVER:PATH DIR`.
fn arguments(server: &str, path: &str, options: &[String], dir: &Path) -> Vec<String> {
    // An address of IPv6 stands in brackets.
    let host = if server.contains(':') && !server.starts_with('[') {
        format!("[{server}]")
    } else {
        server.to_owned()
    };
    let mut all = vec!["-t".to_owned(), "nfs".to_owned()];
    if !options.is_empty() {
        all.extend(["-o".to_owned(), options.join(",")]);
    }
    all.extend([format!("{host}:{path}"), dir.to_string_lossy().into_owned()]);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nfs_volume_becomes_a_mount() {
        let check = |spec: serde_json::Value, expected: &[&str]| {
            let volume = serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap();
            let wanted = wanted(&volume).unwrap();
            let found = arguments(&wanted.server, &wanted.path, &wanted.options, Path::new("/d"));
            assert_eq!(found, expected);
        };
        let source = |server: &str| json!({"server": server, "path": "/x", "readOnly": false});
        check(json!({"nfs": source("h")}), &["-t", "nfs", "h:/x", "/d"]);
        check(json!({"nfs": source("fd00::1")}), &["-t", "nfs", "[fd00::1]:/x", "/d"]);
        check(
            json!({"nfs": {"server": "h", "path": "/x", "readOnly": true}, "mountOptions": ["nfsvers=4.2", "hard"]}),
            &["-t", "nfs", "-o", "nfsvers=4.2,hard,ro", "h:/x", "/d"],
        );
    }

    #[test]
    fn nfs_mount_without_a_server_says_what_failed() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", &fs::canonicalize(dir.path()).unwrap(), "127.0.0.1".parse().unwrap());
        let spec = json!({"nfs": {"server": "127.0.0.1", "path": "/none"}, "mountOptions": ["port=1", "nfsvers=4", "retry=0", "soft"]});
        let volume = serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap();
        let error = Nfs::new(&config).bring(&wanted(&volume).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("mount failed: ") && error.len() > 20, "{error}");
    }

    #[test]
    #[ignore = "needs a kernel with NFS and a server: TEST_NFS=SERVER:/PATH"]
    fn nfs_volume_of_a_claim_is_made_and_mounted() {
        let share = std::env::var("TEST_NFS").expect("TEST_NFS names a server and a path");
        let (server, path) = share.split_once(":/").expect("SERVER:/PATH");
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", &fs::canonicalize(dir.path()).unwrap(), "127.0.0.1".parse().unwrap());
        let name = format!("test-{}", std::process::id());
        let nfs = Nfs::new(&config);
        let wanted = Wanted {
            path: format!("/{path}/{name}"),
            server: server.to_owned(),
            options: Vec::new(),
            is_made: true,
            name,
        };
        for round in ["first", "second"] {
            nfs.bring(&wanted).unwrap();
            let file = nfs.mount_of(&wanted.name).join("f");
            match round {
                "first" => fs::write(&file, "kept").unwrap(),
                _ => assert_eq!(fs::read_to_string(&file).unwrap(), "kept"),
            }
            ext4::unmount(&nfs.mount_of(&wanted.name)).unwrap();
        }
    }
}
