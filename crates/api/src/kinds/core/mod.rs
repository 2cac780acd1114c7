//! The core group.

pub(super) mod config_map;
pub(super) mod pod;
pub(super) mod pod_template;
pub(super) mod replication_controller;
