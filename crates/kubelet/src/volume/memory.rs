//! Where volumes of Secrets, tokens and the like lie: in memory, a small file system for each, so that they never reach
//! a disk and go with the power.
//!
//! Only the agent writes there; containers read. So it is never larger than what the agent puts there, twice: an update
//! stands beside the old files until it takes their place.

use std::fs;
use std::io;
use std::path::Path;

use minik8s_datadir::is_mount_point;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::statvfs;

use super::atomic::LINK;
use super::payload::Payload;

const LEAST: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Mounts it unless it is, with room for these files beside those that are there.
pub fn prepare(dir: &Path, payload: &Payload) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let needed = room_for(payload);
    if is_mount_point(dir) {
        return grow(dir, needed);
    }
    // Made by a version that had these volumes on disk: containers that run still look at those files.
    if fs::symlink_metadata(dir.join(LINK)).is_ok() {
        return Ok(());
    }
    let size = (2 * needed).max(LEAST);
    match mount_with(dir, MsFlags::empty(), &format!("size={size},mode=755,noswap")) {
        // Kernels before 6.4 cannot promise that.
        Err(Errno::EINVAL) => Ok(mount_with(dir, MsFlags::empty(), &format!("size={size},mode=755"))?),
        other => Ok(other?),
    }
}

fn grow(dir: &Path, needed: u64) -> io::Result<()> {
    let now = statvfs(dir)?;
    let bytes = |blocks: u64| blocks * now.fragment_size();
    if bytes(now.blocks_free()) >= needed {
        return Ok(());
    }
    Ok(mount_with(dir, MsFlags::MS_REMOUNT, &format!("size={}", bytes(now.blocks()) + needed))?)
}

fn mount_with(dir: &Path, how: MsFlags, options: &str) -> nix::Result<()> {
    let flags = how | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), dir, Some("tmpfs"), flags, Some(options))
}

/// In whole pages; a directory or a link takes one at most.
fn room_for(payload: &Payload) -> u64 {
    let pages = |file: &super::payload::File| (file.content.len() as u64).div_ceil(PAGE) + 2;
    (payload.values().map(pages).sum::<u64>() + 4) * PAGE
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::statfs::{TMPFS_MAGIC, statfs};

    use super::super::atomic;
    use super::super::payload::File;
    use super::*;

    fn payload(size: usize) -> Payload {
        [("secret".to_owned(), File { content: vec![7; size], mode: 0o400 })].into()
    }

    #[test]
    fn secret_volume_lies_in_memory_and_grows_with_its_payload() {
        assert!(nix::unistd::Uid::effective().is_root(), "this test mounts, and needs root");
        let run = || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            let base = tempfile::tempdir().unwrap();
            let dir = fs::canonicalize(base.path()).unwrap().join("volume");
            for size in [10, 3 << 20, 1 << 20, 5 << 20, 0] {
                let payload = payload(size);
                prepare(&dir, &payload).unwrap();
                atomic::write(&dir, &payload, None).unwrap();
                assert_eq!(fs::read(dir.join("secret")).unwrap().len(), size);
            }
            assert_eq!(statfs(&dir).unwrap().filesystem_type(), TMPFS_MAGIC);
            minik8s_datadir::unmount_below(&dir).unwrap();
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing was written to the disk");
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn volume_of_an_older_version_stays_where_containers_see_it() {
        let base = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(base.path()).unwrap();
        atomic::write(&dir, &payload(1), None).unwrap();
        prepare(&dir, &payload(2)).unwrap();
        assert!(!is_mount_point(&dir));
    }
}
