//! Whether a disk has room for what can wait. The last of it is for those who cannot: the store, pods, their logs.

use std::io;
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Of a large disk; of a small one it is a tenth.
const RESERVE: u64 = 1 << 30;

/// Of the disk that holds this path.
pub fn has_room(path: &Path) -> io::Result<bool> {
    let disk = statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
    Ok(suffices(bytes(disk.blocks_available()), bytes(disk.blocks())))
}

fn suffices(free: u64, size: u64) -> bool {
    free >= RESERVE.min(size / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_full_disk_has_no_room() {
        const GIB: u64 = 1 << 30;
        let check =
            |free: u64, size: u64, expected: bool| assert_eq!(suffices(free, size), expected, "{free}");
        check(GIB, 250 * GIB, true);
        check(GIB - 1, 250 * GIB, false);
        check(GIB / 2, 5 * GIB, true);
        check(GIB / 2 - 1, 5 * GIB, false);
        check(0, 250 * GIB, false);
    }

    #[test]
    fn path_that_is_not_there_is_an_error() {
        assert!(has_room(Path::new("/nowhere/at/all")).is_err());
    }
}
