//! The cgroup hierarchies of the host, v1 or v2, as directories.

use std::path::{Path, PathBuf};
use std::time::Duration;

const ROOT: &str = "/sys/fs/cgroup";

/// Removes a cgroup and all below it, in every hierarchy. Processes in it keep it alive.
pub fn remove_tree(path: &str) {
    for hierarchy in hierarchies() {
        let dir = hierarchy.join(path.trim_start_matches('/'));
        // A cgroup stays busy for a moment after its last process has ended.
        for _ in 0..50 {
            remove_leaves_first(&dir);
            if !dir.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Mount points of all hierarchies: one with v2, one per controller with v1.
pub fn hierarchies() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
            (matches!(kind, "cgroup" | "cgroup2") && point.starts_with(ROOT)).then(|| PathBuf::from(point))
        })
        .collect();
    dirs.sort();
    dirs.dedup();
    dirs
}

fn remove_leaves_first(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_leaves_first(&entry.path());
        }
    }
    // rmdir takes a cgroup's files along and fails while it has children or processes.
    let _ = std::fs::remove_dir(dir);
}
