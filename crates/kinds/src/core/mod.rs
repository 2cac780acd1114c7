//! The core group.

pub(super) mod binding;
pub(super) mod config_map;
pub(super) mod endpoints;
pub(super) mod event;
mod key_value_data;
pub(super) mod limit_range;
pub(super) mod namespace;
pub(super) mod node;
pub(super) mod persistent_volume;
pub(super) mod persistent_volume_claim;
pub(super) mod pod;
pub(super) mod pod_template;
pub(super) mod replication_controller;
pub(super) mod resource_quota;
pub(super) mod secret;
pub(super) mod service;
pub(super) mod service_account;
mod volume_access;
