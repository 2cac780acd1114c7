//! The core group.

pub(super) mod config_map;
