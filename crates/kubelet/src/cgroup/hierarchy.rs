//! Where the host's cgroup hierarchies are mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROOT: &str = "/sys/fs/cgroup";
/// A cgroup stays busy for a moment after its last process has ended.
const REMOVAL_ATTEMPTS: usize = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// The controllers that pods are measured and limited by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// One directory per controller, by its name.
    V1(PathBuf),
    V2(PathBuf),
}

impl Hierarchy {
    pub fn detect() -> Self {
        let root = PathBuf::from(ROOT);
        if root.join("cgroup.controllers").exists() { Hierarchy::V2(root) } else { Hierarchy::V1(root) }
    }

    /// A cgroup's directory for one controller.
    pub fn dir(&self, controller: &str, cgroup: &str) -> PathBuf {
        let cgroup = cgroup.trim_start_matches('/');
        match self {
            Hierarchy::V1(root) => root.join(controller).join(cgroup),
            Hierarchy::V2(root) => root.join(cgroup),
        }
    }

    /// Makes a cgroup for these controllers.
    pub fn create(&self, controllers: &[&str], cgroup: &str) -> io::Result<()> {
        match self {
            Hierarchy::V1(_) => {
                for controller in controllers {
                    fs::create_dir_all(self.dir(controller, cgroup))?;
                }
                Ok(())
            }
            Hierarchy::V2(root) => {
                // A controller works in a cgroup only if every ancestor passes it on.
                let mut dir = root.clone();
                for part in cgroup.split('/').filter(|part| !part.is_empty()) {
                    for controller in controllers {
                        let _ = fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}"));
                    }
                    dir.push(part);
                    match fs::create_dir(&dir) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => {}
                    }
                }
                Ok(())
            }
        }
    }
}

/// Removes a cgroup and all below it, in every hierarchy. Processes in it keep it alive.
pub fn remove_tree(cgroup: &str) {
    for hierarchy in mount_points() {
        let dir = hierarchy.join(cgroup.trim_start_matches('/'));
        for _ in 0..REMOVAL_ATTEMPTS {
            remove_leaves_first(&dir);
            if !dir.exists() {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }
}

/// Mount points of all hierarchies: one with v2, one per controller with v1.
fn mount_points() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
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
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_leaves_first(&entry.path());
        }
    }
    // rmdir takes a cgroup's files along and fails while it has children or processes.
    let _ = fs::remove_dir(dir);
}
