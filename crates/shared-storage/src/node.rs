//! Volumes on this node: one mount and one process for each, bound to where pods want it.

use std::path::Path;

use minik8s_csi::node::{PublishVolume, StageVolume, Unit, VolumeCondition, VolumeStats, VolumeUsage};
use minik8s_csi::{AccessType, VolumeCapability};
use nix::errno::Errno;
use nix::sys::statvfs::statvfs;

use crate::SharedError;
use crate::controller::{directory, is_block};
use crate::engine::Engine;
use crate::mount;
use crate::part::Part;

pub fn stage(engine: &dyn Engine, part: &Part, call: &StageVolume) -> Result<(), SharedError> {
    if call.volume_capability.as_ref().is_some_and(is_block) {
        return Err(SharedError::Block);
    }
    let options = mount_flags(call.volume_capability.as_ref());
    mount::bring(engine, part, &directory(&call.volume_id)?, Path::new(&call.staging_target_path), options)
}

pub fn publish(call: &PublishVolume) -> Result<(), SharedError> {
    mount::bind(Path::new(&call.staging_target_path), Path::new(&call.target_path), call.readonly)
}

pub fn unstage(path: &str) -> Result<(), SharedError> {
    mount::put_away(Path::new(path))
}

pub fn unpublish(path: &str) -> Result<(), SharedError> {
    let path = Path::new(path);
    mount::put_away(path)?;
    let _ = std::fs::remove_dir(path);
    Ok(())
}

/// The mount has the size of the volume's limit. One whose process has died has none, but says so.
pub fn stats(path: &str) -> Result<VolumeStats, SharedError> {
    let found = match statvfs(path) {
        Ok(found) => found,
        Err(error) => return without_size(path, error),
    };
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(found.fragment_size())).unwrap_or(i64::MAX);
    let usage = VolumeUsage {
        available: bytes(found.blocks_available()),
        total: bytes(found.blocks()),
        used: bytes(found.blocks().saturating_sub(found.blocks_free())),
        unit: Unit::Bytes as i32,
    };
    let volume_condition = Some(VolumeCondition { abnormal: false, message: "it is mounted".to_owned() });
    Ok(VolumeStats { usage: vec![usage], volume_condition })
}

fn without_size(path: &str, error: Errno) -> Result<VolumeStats, SharedError> {
    match error {
        Errno::ENOENT => Err(SharedError::NotFound(path.to_owned())),
        dead if mount::is_of_dead_process(dead) => {
            let message =
                "the process of its mount has died: it is mounted anew, and containers that use it must be \
                           started again"
                    .to_owned();
            let volume_condition = Some(VolumeCondition { abnormal: true, message });
            Ok(VolumeStats { usage: Vec::new(), volume_condition })
        }
        other => Err(std::io::Error::from(other).into()),
    }
}

fn mount_flags(capability: Option<&VolumeCapability>) -> &[String] {
    match capability.and_then(|capability| capability.access_type.as_ref()) {
        Some(AccessType::Mount(mount)) => &mount.mount_flags,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_whose_process_died_is_abnormal() {
        let check = |error: Errno, expected: Option<bool>| {
            let stats = without_size("/d/mount", error).ok();
            assert_eq!(stats.map(|stats| stats.volume_condition.unwrap().abnormal), expected, "{error}");
        };
        check(Errno::ENOTCONN, Some(true));
        check(Errno::ECONNABORTED, Some(true));
        check(Errno::EACCES, None);
        check(Errno::ENOENT, None);
        assert!(matches!(stats("/no/such/mount"), Err(SharedError::NotFound(_))));
        assert!(!stats("/").unwrap().volume_condition.unwrap().abnormal);
    }
}
