//! The list of built-in kinds: one line each.

mod apps;
mod batch;
mod core;

use crate::Resource;

/// Every built-in resource, in the order in which discovery shows them.
pub fn all() -> Vec<Resource> {
    vec![
        core::config_map::resource(),
        core::pod::resource(),
        core::pod_template::resource(),
        core::replication_controller::resource(),
        apps::controller_revision::resource(),
        apps::daemon_set::resource(),
        apps::deployment::resource(),
        apps::replica_set::resource(),
        apps::stateful_set::resource(),
        batch::cron_job::resource(),
        batch::job::resource(),
    ]
}
