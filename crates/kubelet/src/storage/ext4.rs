//! ext4 file systems in files: made, checked, mounted through a loop device, grown. All of it blocks.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use minik8s_datadir::{is_mount_point, unmount_below};

use super::StorageError;
use super::loop_device::{self, loop_devices};
use super::program::{output, run, said};

const E2FSPROGS: &str = "e2fsprogs";
const MOUNT: &str = "mount";
const UTIL_LINUX: &str = "util-linux";

/// A file system ends at a whole block.
const BLOCK: u64 = 4096;
/// Exit codes of e2fsck from here on mean that errors are left.
const ERRORS_LEFT: i32 = 4;
/// In a superblock.
const MAGIC: u16 = 0xEF53;
const CLEAN: u16 = 1;

/// Makes an image that takes no more room than what is written into it. It has its name only when it is complete.
pub fn make(image: &Path, size: u64, is_block: bool) -> Result<(), StorageError> {
    complete(image, |new| {
        File::create_new(new)?.set_len(size)?;
        if !is_block {
            format(new)?;
        }
        Ok(())
    })
}

/// A new file is nothing but zeros, which are not written again: of a volume of 1 GiB they were 33 MB.
fn format(image: &Path) -> Result<(), StorageError> {
    let with = |extended: &str| {
        let options = ["-q", "-F", "-m", "0", "-E", extended].map(Path::new);
        run("mkfs.ext4", E2FSPROGS, options.into_iter().chain([image])).map(drop)
    };
    // Programs of before 1.47 do not know it.
    match with("root_owner=0:0,nodiscard,assume_storage_prezeroed=1") {
        Err(StorageError::Program { .. }) => with("root_owner=0:0"),
        other => other,
    }
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
        loop_device::write_past_cache(dir);
        return Ok(());
    }
    // The kernel frees the loop device when the file system is unmounted.
    let own = ["loop", "errors=remount-ro"].map(str::to_owned);
    let options = [&own[..], options].concat().join(",");
    let arguments =
        ["-t".as_ref(), "ext4".as_ref(), "-o".as_ref(), options.as_ref(), image.as_os_str(), dir.as_os_str()];
    run("mount", MOUNT, arguments)?;
    loop_device::read_ahead(image, dir);
    loop_device::write_past_cache(dir);
    Ok(())
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
    let superblock = superblock(image)?;
    let number = |at: usize| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|i| superblock[at + i])));
    let blocks = number(0x150) << 32 | number(0x4);
    Ok(blocks << (10 + number(0x18)).min(16))
}

/// Whether a file system was made and never mounted since, and is as large as its image: there is nothing to check.
pub fn is_unused(image: &Path) -> bool {
    let is_new = superblock(image).is_ok_and(|superblock| {
        let number = |at: usize| u16::from_le_bytes([superblock[at], superblock[at + 1]]);
        let (mounts, magic, state) = (number(0x34), number(0x38), number(0x3A));
        (mounts, magic, state) == (0, MAGIC, CLEAN)
    });
    is_new && is_whole(image).is_ok_and(|is_whole| is_whole)
}

fn superblock(image: &Path) -> Result<[u8; 1024], StorageError> {
    let mut superblock = [0; 1024];
    File::open(image)?.read_exact_at(&mut superblock, 1024)?;
    Ok(superblock)
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
