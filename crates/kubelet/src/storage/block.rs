//! Images as raw block devices, for volumes of mode `Block`. All of it blocks.

use std::fs;
use std::path::Path;

use super::StorageError;
use super::loop_device::{direct, loop_devices};
use super::program::run;

/// Gives an image a device, and makes `at` a link to it.
pub fn attach(image: &Path, at: &Path) -> Result<(), StorageError> {
    let device = match loop_devices(image)?.into_iter().next() {
        Some(device) => {
            run("losetup", "mount", ["-c", &device])?;
            device
        }
        None => run("losetup", "mount", [Path::new("-f"), Path::new("--show"), image])?,
    };
    if let Err(error) = direct(Path::new(&device)) {
        tracing::debug!(device, %error, "its image is written through a cache");
    }
    if fs::read_link(at).is_ok_and(|old| old == Path::new(&device)) {
        return Ok(());
    }
    let _ = fs::remove_file(at);
    Ok(std::os::unix::fs::symlink(device, at)?)
}

/// Takes the devices of an image away.
pub fn detach(image: &Path) -> Result<(), StorageError> {
    for device in loop_devices(image)? {
        run("losetup", "mount", ["-d", &device])?;
    }
    Ok(())
}
