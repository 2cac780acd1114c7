//! ext4 file systems in files: made, checked, mounted through a loop device, grown. All of it blocks.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use minik8s_datadir::{is_mount_point, unmount_below};

use super::StorageError;
use super::program::{output, run, said};

const E2FSPROGS: &str = "e2fsprogs";
const MOUNT: &str = "mount";
const UTIL_LINUX: &str = "util-linux";

/// A file system ends at a whole block.
const BLOCK: u64 = 4096;
/// Exit codes of e2fsck from here on mean that errors are left.
const ERRORS_LEFT: i32 = 4;

/// Makes an image that takes no more room than what is written into it. It has its name only when it is complete.
pub fn make(image: &Path, size: u64, is_block: bool) -> Result<(), StorageError> {
    complete(image, |new| {
        File::create_new(new)?.set_len(size)?;
        if !is_block {
            let options = ["-q", "-F", "-m", "0", "-E", "root_owner=0:0"].map(Path::new);
            run("mkfs.ext4", E2FSPROGS, options.into_iter().chain([new]))?;
        }
        Ok(())
    })
}

/// The same with the content of another image; what the file system can share is shared.
pub fn copy(source: &Path, image: &Path, size: u64) -> Result<(), StorageError> {
    complete(image, |new| {
        let options = ["--reflink=auto", "--sparse=always"].map(Path::new);
        run("cp", "coreutils", options.into_iter().chain([source, new]))?;
        let file = File::options().write(true).open(new)?;
        if file.metadata()?.len() < size {
            file.set_len(size)?;
        }
        Ok(())
    })
}

fn complete(image: &Path, make: impl FnOnce(&Path) -> Result<(), StorageError>) -> Result<(), StorageError> {
    let new = image.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    make(&new)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, image)?;
    match image.parent() {
        Some(parent) => Ok(File::open(parent)?.sync_all()?),
        None => Ok(()),
    }
}

/// Mounts an image that was checked.
pub fn mount(image: &Path, dir: &Path, options: &[String]) -> Result<(), StorageError> {
    fs::create_dir_all(dir)?;
    if is_mount_point(dir) {
        return Ok(());
    }
    // The kernel frees the loop device when the file system is unmounted.
    let own = ["loop", "errors=remount-ro"].map(str::to_owned);
    let options = [&own[..], options].concat().join(",");
    let arguments =
        ["-t".as_ref(), "ext4".as_ref(), "-o".as_ref(), options.as_ref(), image.as_os_str(), dir.as_os_str()];
    run("mount", MOUNT, arguments)?;
    read_ahead(image, dir);
    Ok(())
}

/// Loop devices read ahead less than most disks do. What cannot be set stays as it is.
fn read_ahead(image: &Path, dir: &Path) {
    let setting = |path: &Path| {
        let device = path.metadata()?.dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        Ok::<_, io::Error>(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"))
    };
    let set = || fs::write(setting(dir)?, fs::read(setting(image)?)?);
    let _ = set();
}

/// Gives back what was deleted in a mounted file system. Where its image cannot have holes, nothing is given back.
///
/// Not the mount option `discard`, which does so with each deletion: writing is then a third slower.
pub fn trim(dir: &Path) {
    if is_mount_point(dir) {
        let _ = run("fstrim", UTIL_LINUX, [dir]);
    }
}

pub fn unmount(dir: &Path) -> Result<(), StorageError> {
    Ok(unmount_below(dir)?)
}

/// Makes an image at least so large; it never becomes smaller.
pub fn lengthen(image: &Path, size: u64) -> Result<(), StorageError> {
    let file = File::options().write(true).open(image)?;
    if file.metadata()?.len() < size {
        file.set_len(size)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Makes a file system that nobody uses as large as its image.
pub fn grow(image: &Path) -> Result<(), StorageError> {
    if is_whole(image)? {
        return Ok(());
    }
    check_with(image, &["-f", "-p"])?;
    run("resize2fs", E2FSPROGS, [image]).map(drop)
}

/// The same in place for one that is mounted, which a kernel can refuse.
pub fn grow_in_use(image: &Path) -> Result<(), StorageError> {
    if is_whole(image)? {
        return Ok(());
    }
    for device in loop_devices(image)? {
        run("losetup", MOUNT, ["-c", &device])?;
        run("resize2fs", E2FSPROGS, [&device])?;
    }
    Ok(())
}

fn is_whole(image: &Path) -> Result<bool, StorageError> {
    Ok(size(image)? >= image.metadata()?.len() / BLOCK * BLOCK)
}

/// The size of the file system in an image, as its superblock tells it.
fn size(image: &Path) -> Result<u64, StorageError> {
    let mut superblock = [0; 1024];
    File::open(image)?.read_exact_at(&mut superblock, 1024)?;
    let number = |at: usize| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|i| superblock[at + i])));
    let blocks = number(0x150) << 32 | number(0x4);
    Ok(blocks << (10 + number(0x18)).min(16))
}

/// A file system that is clean, or that can be made so without loss.
pub fn check(image: &Path) -> Result<(), StorageError> {
    check_with(image, &["-p"])
}

fn check_with(image: &Path, how: &[&str]) -> Result<(), StorageError> {
    let arguments = how.iter().map(Path::new).chain([image]);
    let checked = output("e2fsck", E2FSPROGS, arguments)?;
    match checked.status.code() {
        Some(code) if code < ERRORS_LEFT => Ok(()),
        _ => Err(StorageError::Damaged { path: image.to_owned(), message: said(&checked) }),
    }
}

/// The loop devices of an image.
pub fn loop_devices(image: &Path) -> Result<Vec<String>, StorageError> {
    let arguments = ["-n", "-O", "NAME", "-j"].map(Path::new);
    let listed = run("losetup", MOUNT, arguments.into_iter().chain([image]))?;
    Ok(listed.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}
