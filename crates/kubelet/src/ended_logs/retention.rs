//! How long and how much is kept, and what has to go.

use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use minik8s_datadir::remove_tree;
use tracing::warn;

use super::UNFINISHED;

/// Of all pods of a node together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRetention {
    pub age: Duration,
    pub bytes: u64,
}

impl FromStr for LogRetention {
    type Err = String;

    /// `24h,1GiB`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: give an age and a size, as 24h,1GiB");
        let (age, size) = text.split_once(',').ok_or_else(wrong)?;
        let age: jiff::SignedDuration = age.trim().parse().map_err(|_| wrong())?;
        let age = Duration::try_from(age).map_err(|_| wrong())?;
        // People write GiB for what Kubernetes writes Gi.
        let size = size.trim().trim_end_matches('B');
        let size: minik8s_meta::Quantity = size.parse().map_err(|_| wrong())?;
        let bytes = u64::try_from(size.value()).map_err(|_| wrong())?;
        if age.is_zero() || bytes == 0 {
            return Err(wrong());
        }
        Ok(LogRetention { age, bytes })
    }
}

/// The logs of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub name: String,
    pub ended: SystemTime,
    pub bytes: u64,
}

/// Which of them go: those that are too old, and the oldest until the rest is small enough. Pure.
pub fn surplus(mut kept: Vec<Kept>, retention: LogRetention, now: SystemTime) -> Vec<String> {
    kept.sort_by_key(|one| std::cmp::Reverse(one.ended));
    let mut room = retention.bytes;
    let mut is_full = false;
    let mut gone = Vec::new();
    for one in kept {
        let is_old = now.duration_since(one.ended).is_ok_and(|age| age > retention.age);
        is_full = is_full || one.bytes > room;
        if is_old || is_full {
            gone.push(one.name);
        } else {
            room -= one.bytes;
        }
    }
    gone
}

/// Removes what has to go, and what was never finished. Blocks.
pub fn prune(folder: &Path, retention: LogRetention, now: SystemTime) {
    for name in surplus(kept(folder).unwrap_or_default(), retention, now) {
        if let Err(error) = remove_tree(folder, &name) {
            warn!(%error, name, "logs of a pod that is gone cannot be removed");
        }
    }
}

/// All folders that are whole.
pub fn kept(folder: &Path) -> io::Result<Vec<Kept>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(about) = entry.metadata() else { continue };
        if !about.is_dir() || name.starts_with(UNFINISHED) {
            continue;
        }
        let files = fs::read_dir(entry.path())?.flatten();
        let bytes = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        all.push(Kept { name, ended: about.modified()?, bytes });
    }
    Ok(all)
}
