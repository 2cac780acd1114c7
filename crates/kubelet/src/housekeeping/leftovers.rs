//! What pods left behind that no longer exist: an agent that was killed may not have cleaned up after them.
//!
//! What cannot be removed is told and tried again the next time. Never removed is what belongs to somebody else: a pod's
//! directory in which something stays mounted stays as it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use minik8s_datadir::{RemovalError, remove_tree, unmount_and_remove};
use tracing::info;

use crate::Config;
use crate::cgroup::{self, Hierarchy};

/// Removes directories, logs and cgroups of pods that are not among the known ones. Blocks. Returns what had to stay.
pub fn remove_leftovers(
    config: &Config,
    hierarchy: &Hierarchy,
    known: &BTreeSet<String>,
) -> Vec<RemovalError> {
    let mut stays = Vec::new();
    for name in names_in(&config.pods_dir()).into_iter().filter(|uid| !known.contains(uid)) {
        info!(uid = name, "removing the directory of a pod that is gone");
        stays.extend(unmount_and_remove(&config.pods_dir(), name).err());
    }
    for name in names_in(&config.logs_dir()) {
        let uid = name.rsplit('_').next().unwrap_or_default();
        if !known.contains(uid) {
            stays.extend(remove_tree(&config.logs_dir(), &name).err());
        }
    }
    for class in ["", "/burstable", "/besteffort"] {
        let parent = format!("{}{class}", config.cgroup_root());
        for name in names_in(&hierarchy.dir("memory", &parent)) {
            if name.strip_prefix("pod").is_some_and(|uid| !known.contains(uid)) {
                cgroup::remove_tree(&format!("{parent}/{name}"));
            }
        }
    }
    stays
}

/// Directories in a directory.
fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_pods_go() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", dir.path(), "127.0.0.1".parse().unwrap());
        for uid in ["known", "gone"] {
            fs::create_dir_all(config.pods_dir().join(uid).join("volumes")).unwrap();
            fs::create_dir_all(config.logs_dir().join(format!("ns_web_{uid}"))).unwrap();
            fs::create_dir_all(
                dir.path().join("cgroup").join(&config.cgroup_root()[1..]).join(format!("pod{uid}")),
            )
            .unwrap();
        }
        let hierarchy = Hierarchy::V2(dir.path().join("cgroup"));
        let stays = remove_leftovers(&config, &hierarchy, &BTreeSet::from(["known".to_owned()]));
        assert!(stays.is_empty(), "{stays:?}");
        assert_eq!(names_in(&config.pods_dir()), ["known"]);
        assert_eq!(names_in(&config.logs_dir()), ["ns_web_known"]);
    }
}
