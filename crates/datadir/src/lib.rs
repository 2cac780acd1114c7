//! The directory in which a minik8s keeps everything, and the only way in which anything of it is removed.
//!
//! Pods bring other people's files into it: bind mounts of host paths, links to claims. So a tree is removed by
//! descriptors, beneath a directory whose path has no link in it, and the kernel is told never to leave the mount that
//! it began in. Nothing else in the repository removes trees; `crates/minik8s/tests/e2e/layers.rs` sees to that.

mod directory;
mod lock;
mod mount_table;
mod purge;
mod removal;
mod room;
mod unmount;

pub use directory::{close, prepare, resolve};
pub use lock::{LockError, Occupant, lock, vacant};
pub use mount_table::is_mount_point;
pub use purge::{Purged, is_known, purge};
pub use removal::{RemovalError, remove_tree, unmount_and_remove};
pub use room::has_room;
pub use unmount::{UnmountError, unmount_below, unmount_inside};
