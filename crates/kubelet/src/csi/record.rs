//! What is staged and published, on the disk: written before a driver is asked, removed after it has taken a volume away.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use minik8s_csi::{digest, unique_volume_name};
use serde::{Deserialize, Serialize};

use crate::Config;

const RECORD: &str = "vol_data.json";
/// Beside a record, when the driver has said that the volume is there.
const COMPLETE: &str = "complete";
/// The directory of a pod with its volumes of drivers, one directory each.
const CSI: &str = "csi";
/// The target of a publication, in the directory of its record.
pub const PUBLISHED: &str = "mount";
const STAGED: &str = "globalmount";

/// A volume of a driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub driver: String,
    pub handle: String,
    /// The PersistentVolume; empty for one that a pod brings along.
    pub volume: String,
    /// The server has attached it, and must not detach it while this is here.
    pub is_attached: bool,
    /// The driver has said that it is there.
    pub is_complete: bool,
}

/// A record and the directory that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub dir: PathBuf,
    pub record: Record,
}

impl Record {
    pub fn unique_name(&self) -> String {
        unique_volume_name(&self.driver, &self.handle)
    }

    /// Complete or not at all, and on the disk: before a driver is asked.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        match fs::remove_file(dir.join(COMPLETE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let new = dir.join(format!(".{RECORD}.tmp"));
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(new, dir.join(RECORD))?;
        fs::File::open(dir)?.sync_all()
    }

    /// The driver has said that the volume is there. Nobody waits for the disk: whoever finds this missing asks again.
    pub fn complete(dir: &Path) -> io::Result<()> {
        fs::File::create(dir.join(COMPLETE)).map(drop)
    }

    /// None if there is none. One that cannot be read is an error: nobody may take it for nothing.
    pub fn read(dir: &Path) -> io::Result<Option<Record>> {
        match fs::read(dir.join(RECORD)) {
            Ok(text) => {
                let record: Record = serde_json::from_slice(&text)?;
                let is_complete = record.is_complete || dir.join(COMPLETE).exists();
                Ok(Some(Record { is_complete, ..record }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Kept {
    pub fn target(&self) -> PathBuf {
        self.dir.join(PUBLISHED)
    }

    pub fn staging(&self) -> PathBuf {
        self.dir.join(STAGED)
    }
}

/// Where a pod's volume of a driver is published: the name of the directory is the volume's.
pub fn published_path(config: &Config, pod: &str, name: &str) -> PathBuf {
    config.pods_dir().join(pod).join(CSI).join(name).join(PUBLISHED)
}

/// Where a volume is staged for all pods of the node.
pub fn staging_dir(config: &Config, driver: &str, handle: &str) -> PathBuf {
    all_staged(config).join(driver).join(digest(handle))
}

fn all_staged(config: &Config) -> PathBuf {
    config.plugins_dir().join("kubernetes.io").join(CSI)
}

/// The volumes of drivers of one pod, also those that are only about to be. A directory without a record is one too: it
/// was made, and the driver never asked.
pub fn pod_records(config: &Config, pod: &str) -> io::Result<Vec<(PathBuf, Option<Record>)>> {
    let dirs = directories(&config.pods_dir().join(pod).join(CSI))?;
    dirs.into_iter().map(|dir| Ok((dir.clone(), Record::read(&dir)?))).collect()
}

pub fn has_volumes(config: &Config, pod: &str) -> bool {
    config.pods_dir().join(pod).join(CSI).is_dir()
}

/// The UIDs of pods that have any.
pub fn pods_with_volumes(config: &Config) -> io::Result<Vec<String>> {
    let pods = directories(&config.pods_dir())?.into_iter().filter(|pod| pod.join(CSI).is_dir());
    Ok(pods.filter_map(|pod| Some(pod.file_name()?.to_str()?.to_owned())).collect())
}

pub fn staged_records(config: &Config) -> io::Result<Vec<Kept>> {
    let mut found = Vec::new();
    for driver in directories(&all_staged(config))? {
        for dir in directories(&driver)? {
            found.extend(Record::read(&dir)?.map(|record| Kept { dir, record }));
        }
    }
    Ok(found)
}

/// What the server must not detach, as a node's status names it.
pub fn in_use(config: &Config) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for uid in pods_with_volumes(config)? {
        let records = pod_records(config, &uid)?.into_iter().filter_map(|(_, record)| record);
        names.extend(records.filter(|record| record.is_attached).map(|record| record.unique_name()));
    }
    let staged = staged_records(config)?.into_iter().map(|kept| kept.record);
    names.extend(staged.filter(|record| record.is_attached).map(|record| record.unique_name()));
    names.sort();
    names.dedup();
    Ok(names)
}

fn directories(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let dirs = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(dirs.map(fs::DirEntry::path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_tell_what_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", dir.path(), "127.0.0.1".parse().unwrap());
        assert!(in_use(&config).unwrap().is_empty());
        let record = |handle: &str, is_attached: bool| Record {
            driver: "d.example".to_owned(),
            handle: handle.to_owned(),
            volume: "pv".to_owned(),
            is_attached,
            is_complete: false,
        };
        let published = published_path(&config, "uid", "pv");
        record("h/../1", true).write(published.parent().unwrap()).unwrap();
        record("h/../1", true).write(&staging_dir(&config, "d.example", "h/../1")).unwrap();
        record("h2", false).write(&staging_dir(&config, "d.example", "h2")).unwrap();
        assert_eq!(in_use(&config).unwrap(), ["kubernetes.io/csi/d.example^h/../1"]);
        assert_eq!(staged_records(&config).unwrap().len(), 2);
        let staged = staging_dir(&config, "d.example", "h2");
        let is_complete = || Record::read(&staged).unwrap().unwrap().is_complete;
        assert!(!is_complete());
        Record::complete(&staged).unwrap();
        assert!(is_complete());
        record("h2", false).write(&staged).unwrap();
        assert!(!is_complete(), "it is asked for again");
        fs::create_dir_all(config.pods_dir().join("uid/csi/empty")).unwrap();
        let mut records = pod_records(&config, "uid").unwrap();
        records.sort();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].1, None);
        fs::write(config.pods_dir().join("uid/csi/empty").join(RECORD), "{").unwrap();
        assert!(pod_records(&config, "uid").is_err(), "what cannot be read is not nothing");
    }
}
