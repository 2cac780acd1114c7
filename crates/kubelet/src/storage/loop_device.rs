//! Loop devices, through which images are mounted. All of it blocks.
//!
//! The device of an image is found by asking the kernel, so nobody has to remember it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

use super::StorageError;
use super::program::run;

const MOUNT: &str = "mount";

/// The loop devices of an image.
pub fn loop_devices(image: &Path) -> Result<Vec<String>, StorageError> {
    let arguments = ["-n", "-O", "NAME", "-j"].map(Path::new);
    let listed = run("losetup", MOUNT, arguments.into_iter().chain([image]))?;
    Ok(listed.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}

/// What is written goes to the image's disk directly, and not through a second cache, which would take memory twice and
/// most of the speed of large writes. Where the file system below cannot do that, it stays as it was.
pub fn write_past_cache(mounted: &Path) {
    let Some(name) = device_name(mounted) else { return };
    let dio = fs::read_to_string(Path::new("/sys/block").join(&name).join("loop/dio"));
    let is_buffered = dio.is_ok_and(|dio| dio.trim() == "0");
    if is_buffered && let Err(error) = direct(&Path::new("/dev").join(name)) {
        tracing::debug!(mount = ?mounted, %error, "its image is written through a cache");
    }
}

/// The same for a device without a file system.
pub fn direct(device: &Path) -> Result<(), StorageError> {
    run("losetup", MOUNT, [Path::new("--direct-io=on"), device]).map(drop)
}

/// Loop devices read ahead less than most disks do. What cannot be set stays as it is.
pub fn read_ahead(image: &Path, dir: &Path) {
    let setting = |path: &Path| {
        let device = path.metadata()?.dev();
        Ok::<_, io::Error>(format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(device), minor(device)))
    };
    let set = || fs::write(setting(dir)?, fs::read(setting(image)?)?);
    let _ = set();
}

/// How many errors the kernel has found in a mounted ext4 file system since it was last repaired; 0 for one of another type.
pub fn file_system_errors(mounted: &Path) -> u64 {
    let told = device_name(mounted)
        .and_then(|name| fs::read_to_string(Path::new("/sys/fs/ext4").join(name).join("errors_count")).ok());
    told.and_then(|told| told.trim().parse().ok()).unwrap_or(0)
}

/// What the kernel calls the device whose file system is mounted.
fn device_name(mounted: &Path) -> Option<OsString> {
    let device = mounted.metadata().ok()?.dev();
    let told = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    Some(told.canonicalize().ok()?.file_name()?.to_owned())
}
