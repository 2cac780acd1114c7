//! Tasks that follow objects in the store: begun anew when the watch breaks, until the server stops.

use minik8s_meta::Backoff;
use minik8s_store::{Watch, WatchItem};
use tokio_util::sync::CancellationToken;

use crate::error::Result;

const RETRY: Backoff = Backoff::millis(100, 1_000);

/// `follow` ends when its watch does. `what` is told when it fails.
pub async fn always<F>(what: &str, stop: CancellationToken, follow: impl Fn() -> F)
where
    F: Future<Output = Result<()>>,
{
    let _ = stop.run_until_cancelled(for_ever(what, follow)).await;
}

/// For those whose caller ends them.
pub async fn for_ever<F>(what: &str, follow: impl Fn() -> F)
where
    F: Future<Output = Result<()>>,
{
    let mut retries = RETRY.retries();
    loop {
        match follow().await {
            Ok(()) => retries.succeeded(),
            Err(error) => tracing::warn!(%error, "{what} failed; trying again"),
        }
        tokio::time::sleep(retries.failed()).await;
    }
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
