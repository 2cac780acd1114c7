//! What pods left behind that no longer exist: an agent that was killed may not have cleaned up after them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tracing::info;

use crate::Config;
use crate::cgroup::{self, Hierarchy};
use crate::volume::unmount_below;

/// Removes directories, logs and cgroups of pods that are not among the known ones. Blocks.
pub fn remove_leftovers(config: &Config, hierarchy: &Hierarchy, known: &BTreeSet<String>) {
    for name in names_in(&config.pods_dir()).into_iter().filter(|uid| !known.contains(uid)) {
        info!(uid = name, "removing the directory of a pod that is gone");
        let dir = config.pods_dir().join(name);
        unmount_below(&dir);
        let _ = fs::remove_dir_all(dir);
    }
    for name in names_in(&config.logs_dir()) {
        let uid = name.rsplit('_').next().unwrap_or_default();
        if !known.contains(uid) {
            let _ = fs::remove_dir_all(config.logs_dir().join(&name));
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
        remove_leftovers(&config, &hierarchy, &BTreeSet::from(["known".to_owned()]));
        assert_eq!(names_in(&config.pods_dir()), ["known"]);
        assert_eq!(names_in(&config.logs_dir()), ["ns_web_known"]);
    }
}
