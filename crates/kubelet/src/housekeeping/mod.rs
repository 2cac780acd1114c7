//! Keeps the node clean: old logs, unused images, what dead pods left behind.

mod images;
mod leftovers;
mod log_rotation;

pub use images::collect_images;
pub use leftovers::remove_leftovers;
pub use log_rotation::rotate_logs;

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use images::ImageAges;

const LOGS_EVERY: Duration = Duration::from_secs(10);
const IMAGES_EVERY: Duration = Duration::from_secs(300);

/// Never returns.
pub async fn keep_house(context: Arc<Context>) {
    let mut logs = tokio::time::interval(LOGS_EVERY);
    let mut images = tokio::time::interval(IMAGES_EVERY);
    let mut ages = ImageAges::default();
    loop {
        tokio::select! {
            _ = logs.tick() => rotate_logs(&context).await,
            _ = images.tick() => collect_images(&context, &mut ages).await,
        }
    }
}
