//! Where the host's cgroup hierarchies are mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ROOT: &str = "/sys/fs/cgroup";
/// A cgroup stays busy for a moment after its last process has ended, for longer on a busy machine. Of all hierarchies
/// together.
const REMOVAL: Duration = Duration::from_secs(5);
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// The controllers that pods are measured and limited by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// One directory per controller, by its name. A hybrid host has a v2 tree beside them, without controllers.
    V1(PathBuf),
    V2(PathBuf),
}

impl Hierarchy {
    pub fn detect() -> Self {
        Hierarchy::at(PathBuf::from(ROOT))
    }

    /// The root of a v2 tree lists its controllers; with v1 and hybrid it is a directory of directories.
    fn at(root: PathBuf) -> Self {
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

    /// The names of the groups right below one that have been there for so long.
    pub fn children_older_than(&self, cgroup: &str, age: Duration) -> Vec<String> {
        let entries = fs::read_dir(self.dir("memory", cgroup)).into_iter().flatten().flatten();
        let is_old = |entry: &fs::DirEntry| {
            let made = entry.metadata().ok().filter(fs::Metadata::is_dir).and_then(|dir| dir.modified().ok());
            made.and_then(|made| made.elapsed().ok()).is_some_and(|since| since >= age)
        };
        entries.filter(is_old).filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

/// Ends every process in a cgroup and below it. For what must be over: a container runtime that was killed, or whose
/// disk was full, may have forgotten containers that still run.
pub fn end_processes(cgroup: &str) {
    let until = Instant::now() + REMOVAL;
    for dir in places(cgroup) {
        while kill_below(&dir) && Instant::now() < until {
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }
}

/// Removes a cgroup and all below it, in every hierarchy. Processes that are still in it end.
pub fn remove_tree(cgroup: &str) {
    let until = Instant::now() + REMOVAL;
    for dir in places(cgroup) {
        loop {
            kill_below(&dir);
            remove_leaves_first(&dir);
            if !dir.exists() || Instant::now() >= until {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }
}

/// Where a cgroup is in each hierarchy.
fn places(cgroup: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mount_points(&mounts).iter().map(|point| point.join(cgroup.trim_start_matches('/'))).collect()
}

/// Whether there was anybody to kill.
fn kill_below(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let mut found = false;
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found |= kill_below(&entry.path());
        }
    }
    let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in listed.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1) {
        found = true;
        tracing::warn!(pid, cgroup = %dir.display(), "ending a process that should have ended before");
        // It may have ended by itself meanwhile.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    found
}

/// Mount points of all hierarchies: one with v2, one per controller with v1, both with hybrid.
fn mount_points(mounts: &str) -> Vec<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What `create` makes below a root that has these files and directories to begin with.
    fn made(layout: &[&str]) -> (Hierarchy, Vec<String>) {
        let root = tempfile::tempdir().unwrap();
        for path in layout {
            match path.strip_suffix('/') {
                Some(dir) => fs::create_dir_all(root.path().join(dir)).unwrap(),
                None => fs::write(root.path().join(path), "").unwrap(),
            }
        }
        let hierarchy = Hierarchy::at(root.path().to_owned());
        hierarchy.create(&["cpu", "memory"], "/minik8s/burstable/pod1").unwrap();
        let mut found = Vec::new();
        walk(root.path(), root.path(), &mut found);
        found.sort();
        (hierarchy, found.into_iter().filter(|path| path.contains("minik8s")).collect())
    }

    fn walk(root: &Path, dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.is_dir() {
                walk(root, &path, found);
            }
        }
    }

    #[test]
    fn children_by_age() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("pod1/container")).unwrap();
        fs::write(root.path().join("pod1/cgroup.procs"), "").unwrap();
        let hierarchy = Hierarchy::V2(root.path().to_owned());
        assert_eq!(hierarchy.children_older_than("/pod1", Duration::ZERO), ["container"]);
        assert_eq!(hierarchy.children_older_than("/pod1", Duration::from_secs(3600)), [""; 0]);
        assert_eq!(hierarchy.children_older_than("/pod2", Duration::ZERO), [""; 0]);
    }

    #[test]
    fn what_is_left_ends() {
        let root = tempfile::tempdir().unwrap();
        let container = root.path().join("pod1/container");
        fs::create_dir_all(&container).unwrap();
        let mut left = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        // Nobody writes a number that means all processes, but nobody should believe it either.
        fs::write(container.join("cgroup.procs"), format!("0\n-1\n1\n{}\n", left.id())).unwrap();
        assert!(kill_below(root.path()));
        assert!(!left.wait().unwrap().success());
        fs::write(container.join("cgroup.procs"), "").unwrap();
        assert!(!kill_below(root.path()));
        assert!(!kill_below(&root.path().join("missing")));
    }

    #[test]
    fn v1_v2_and_hybrid() {
        let per_controller = [
            "cpu/minik8s",
            "cpu/minik8s/burstable",
            "cpu/minik8s/burstable/pod1",
            "memory/minik8s",
            "memory/minik8s/burstable",
            "memory/minik8s/burstable/pod1",
        ];
        let (v1, found) = made(&["cpu/", "memory/"]);
        assert!(matches!(v1, Hierarchy::V1(_)));
        assert_eq!(found, per_controller);
        let (hybrid, found) = made(&["cpu/", "memory/", "unified/"]);
        assert!(matches!(hybrid, Hierarchy::V1(_)));
        assert_eq!(found, per_controller, "nothing in the v2 tree, which has no controllers");
        let (v2, found) = made(&["cgroup.controllers", "cgroup.subtree_control"]);
        assert!(matches!(v2, Hierarchy::V2(_)));
        // Each ancestor passes the controllers on; the pod's own cgroup does not.
        assert_eq!(
            found,
            [
                "minik8s",
                "minik8s/burstable",
                "minik8s/burstable/cgroup.subtree_control",
                "minik8s/burstable/pod1",
                "minik8s/cgroup.subtree_control"
            ]
        );
    }

    #[test]
    fn directories() {
        let check = |hierarchy: Hierarchy, want: &str| {
            assert_eq!(hierarchy.dir("memory", "/minik8s/pod1"), Path::new(want));
        };
        check(Hierarchy::V1("/sys/fs/cgroup".into()), "/sys/fs/cgroup/memory/minik8s/pod1");
        check(Hierarchy::V2("/sys/fs/cgroup".into()), "/sys/fs/cgroup/minik8s/pod1");
    }

    #[test]
    fn where_cgroups_are_removed() {
        let check = |mounts: &str, want: &[&str]| {
            let want: Vec<_> = want.iter().map(PathBuf::from).collect();
            assert_eq!(mount_points(mounts), want, "{mounts}");
        };
        let cpu = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        let unified = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        check(cpu, &["/sys/fs/cgroup/cpu"]);
        check(&format!("{unified}{cpu}{cpu}"), &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"]);
        check("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", &["/sys/fs/cgroup"]);
        check("cgroup2 /elsewhere cgroup2 rw 0 0\ntmpfs /sys/fs/cgroup tmpfs rw 0 0\n", &[]);
    }
}
