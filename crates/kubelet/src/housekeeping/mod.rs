//! Keeps the node clean: old logs, unused images, what dead pods left behind.

mod images;
mod leftovers;
mod log_rotation;
mod orphans;
mod settings;

pub use images::{ImageAges, collect_images, reclaim_images};
pub use leftovers::remove_leftovers;
pub use log_rotation::rotate_logs;
pub use settings::{HousekeepingSettings, ImageSettings, LogSettings};

use std::time::SystemTime;

use crate::Config;
use crate::context::NodeContext;
use crate::{ended_logs, function_code};
use orphans::{orphans_of, remove_orphans};

/// Unused images are no hurry: a disk that runs short asks for them to go by itself.
const ROUNDS_PER_IMAGES: u32 = 30;
/// Nor are containers that an interrupted start left: they are rare.
const ROUNDS_PER_ORPHANS: u32 = 6;

/// Never returns.
pub async fn keep_house(context: &NodeContext) {
    let interval = context.config.housekeeping.interval;
    let mut logs = tokio::time::interval(interval);
    let mut images = tokio::time::interval(interval * ROUNDS_PER_IMAGES);
    let mut sweeps = tokio::time::interval(interval * ROUNDS_PER_ORPHANS);
    let mut orphans = orphans_of(&context.config);
    loop {
        tokio::select! {
            _ = sweeps.tick() => {
                remove_orphans(context.runtime.as_ref(), &mut orphans).await;
                forget_logs(&context.config).await;
                forget_code(&context.config).await;
            }
            _ = logs.tick() => rotate_logs(context).await,
            _ = images.tick() => collect_images(context).await,
        }
    }
}

/// Code of functions that no pod has used for a while.
async fn forget_code(config: &Config) {
    let config = config.clone();
    drop(tokio::task::spawn_blocking(move || function_code::collect(&config)).await);
}

/// Also while no pod ends, logs get too old.
async fn forget_logs(config: &Config) {
    let Some(retention) = config.housekeeping.logs.retention else { return };
    let folder = config.ended_logs_dir();
    let pruned =
        tokio::task::spawn_blocking(move || ended_logs::prune(&folder, retention, SystemTime::now())).await;
    drop(pruned);
}
