//! What containers print, for a collector elsewhere: follows the log files of all pods and puts their lines into a queue.
//!
//! The files are the buffer: while the queue is full they are left as they are, so that a collector that is away costs no
//! memory and delays nobody. What was read is remembered across restarts of the agent ([`Positions`]). Only where a file
//! goes before its lines could be read are lines lost, and then counted.

mod log_reader;
mod positions;
mod rounds;

use std::time::Duration;

use minik8s_telemetry::{LogRecord, Queue};
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::Config;
use log_reader::LogReader;
pub use positions::Positions;
pub use rounds::LogExport;

/// Between two looks at files that grow, and at those that do not.
const BUSY: Duration = Duration::from_millis(200);
const IDLE: Duration = Duration::from_secs(1);

/// Never returns; does nothing where no collector was named.
pub async fn export_logs(config: &Config) {
    let Some(queue) = config.log_export.clone() else { return std::future::pending().await };
    let (logs_dir, node) = (config.logs_dir(), config.node_name.clone());
    let positions = config.data_dir.join("log-export.json");
    let mut export = LogExport::new(logs_dir, node, queue, Positions::load(positions));
    loop {
        let round = spawn_blocking(move || {
            let grew = export.round();
            (export, grew)
        });
        let grew = match round.await {
            Ok((same, grew)) => {
                export = same;
                grew
            }
            Err(error) => {
                warn!(%error, "the export of logs has ended");
                return std::future::pending().await;
            }
        };
        tokio::time::sleep(if grew { BUSY } else { IDLE }).await;
    }
}

/// Where lines go.
type Records = Queue<LogRecord>;
