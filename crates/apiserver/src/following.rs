//! Tasks that follow objects in the store: begun anew when the watch breaks, until the server stops.

use std::time::Duration;

use minik8s_store::{Watch, WatchItem};
use tokio_util::sync::CancellationToken;

use crate::error::Result;

const RETRY: Duration = Duration::from_secs(1);

/// `follow` ends when its watch does. `what` is told when it fails.
pub async fn always<F>(what: &str, stop: CancellationToken, follow: impl Fn() -> F)
where
    F: Future<Output = Result<()>>,
{
    let run = async {
        loop {
            if let Err(error) = follow().await {
                tracing::warn!(%error, "{what} failed; trying again");
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    let _: Option<()> = stop.run_until_cancelled(run).await;
}

/// Waits for a change. False: the watch has ended.
pub async fn changed(watch: &mut Watch) -> Result<bool> {
    while let Some(item) = watch.next().await {
        if let WatchItem::Event(_) = item? {
            return Ok(true);
        }
    }
    Ok(false)
}
