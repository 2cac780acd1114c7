//! Puts a pod's volumes, files and host name into a container that runs already.
//!
//! A mount cannot be made from another namespace's path, but a detached copy of one can be moved there (`open_tree`,
//! `move_mount`; Linux 5.2). That is done by a thread of its own, which ends in the container's namespaces. Only for a
//! container in which nothing of a user has run yet: paths in it are taken for what the image says.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::sethostname;
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

/// One file or directory of the host, and where it is to be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub source: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
}

/// What a container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    pub binds: Vec<Bind>,
    pub hostname: String,
    pub oom_score_adj: i64,
}

/// `processes` is the file that lists the processes of the container's cgroup. Blocks.
pub fn inject(processes: &Path, injection: &Injection) -> io::Result<()> {
    let pid = only_process(processes)?;
    let namespace = |name: &str| File::open(format!("/proc/{pid}/ns/{name}"));
    let (mounts, names) = (namespace("mnt")?, namespace("uts")?);
    fs::write(format!("/proc/{pid}/oom_score_adj"), injection.oom_score_adj.to_string())?;
    // What was opened above was of that process only if it still is there.
    if only_process(processes)? != pid {
        return Err(io::Error::other("the slot's program has ended"));
    }
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = |bind: &Bind| {
        let is_dir = fs::metadata(&bind.source)?.is_dir();
        Ok((open_tree(CWD, &bind.source, flags)?, is_dir))
    };
    let trees: Vec<(OwnedFd, bool)> = injection.binds.iter().map(tree).collect::<io::Result<_>>()?;
    let enter = || -> io::Result<()> {
        unshare(CloneFlags::CLONE_FS)?;
        setns(&names, CloneFlags::CLONE_NEWUTS)?;
        setns(&mounts, CloneFlags::CLONE_NEWNS)?;
        sethostname(&injection.hostname)?;
        injection.binds.iter().zip(&trees).try_for_each(|(bind, (tree, is_dir))| place(bind, tree, *is_dir))
    };
    let entered = std::thread::scope(|scope| scope.spawn(enter).join());
    entered.map_err(|_| io::Error::other("the thread that entered the slot has panicked"))?
}

/// A slot's program is alone.
fn only_process(processes: &Path) -> io::Result<i32> {
    let text = fs::read_to_string(processes)?;
    let mut pids = text.lines().filter_map(|line| line.trim().parse().ok());
    match (pids.next(), pids.next()) {
        (Some(pid), None) => Ok(pid),
        _ => Err(io::Error::other("the slot's program is not alone in its container")),
    }
}

/// In the container's namespaces.
fn place(bind: &Bind, tree: &OwnedFd, is_dir: bool) -> io::Result<()> {
    let target = &bind.target;
    if fs::symlink_metadata(target).is_err() {
        let parent = if is_dir { Some(target.as_path()) } else { target.parent() };
        parent.map_or(Ok(()), fs::create_dir_all)?;
        if !is_dir {
            File::create(target)?;
        }
    }
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    let none: Option<&str> = None;
    mount(none, target, none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    if bind.read_only {
        let remount = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | kept(target)?;
        mount(none, target, none, remount, none)?;
    }
    Ok(())
}

/// What a remount must name so that it stays.
fn kept(target: &Path) -> io::Result<MsFlags> {
    let now = statvfs(target)?.flags();
    let pairs = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    Ok(pairs.into_iter().filter(|(flag, _)| now.contains(*flag)).map(|(_, flag)| flag).collect())
}
