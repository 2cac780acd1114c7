//! Sends what waits in a queue to its collector, batch after batch.

use std::time::Duration;

use bytes::Bytes;
use minik8s_meta::Backoff;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::client::{Client, Failure};
use crate::{Endpoint, Queue, Weighed};

/// What comes within this time goes together.
const GATHER: Duration = Duration::from_secs(1);
/// A batch that is on its way when the process ends has this long.
const LAST: Duration = Duration::from_secs(2);
const BACKOFF: Backoff = Backoff::millis(500, 60_000);

/// How a batch is written.
pub type Encode<T> = fn(&[T]) -> Vec<u8>;

pub struct Exporter<T> {
    pub queue: Queue<T>,
    pub endpoint: Endpoint,
    pub encode: Encode<T>,
}

impl<T: Weighed + Send + 'static> Exporter<T> {
    /// Until `stop`, and then once more what waits.
    pub async fn run(self, stop: CancellationToken) {
        let Exporter { queue, endpoint, encode } = self;
        let mut client = Client::new(endpoint);
        let mut retries = BACKOFF.retries();
        let working = async {
            loop {
                queue.filled().await;
                let _ = tokio::time::timeout(GATHER, queue.batch_filled()).await;
                let batch = queue.take();
                let (count, body) = (batch.len(), Bytes::from(encode(&batch)));
                drop(batch);
                loop {
                    match client.post(body.clone()).await {
                        Ok(()) => {
                            retries.succeeded();
                            queue.count_sent(count);
                            break;
                        }
                        Err(Failure::Rejected(why)) => {
                            let (signal, place) = (queue.signal(), client.endpoint());
                            warn!(signal, collector = ?place, count, "a collector refuses records: {why}");
                            queue.count_rejected(count);
                            break;
                        }
                        Err(Failure::Away(why)) => {
                            queue.count_failure();
                            let pause = retries.failed();
                            if retries.is_first() {
                                let (signal, place) = (queue.signal(), client.endpoint());
                                warn!(signal, collector = ?place, "records wait for their collector: {why}");
                            }
                            tokio::time::sleep(pause).await;
                        }
                    }
                }
            }
        };
        tokio::select! {
            () = working => {}
            () = stop.cancelled() => {}
        }
        let rest = queue.take();
        if !rest.is_empty() {
            let sent = tokio::time::timeout(LAST, client.post(Bytes::from(encode(&rest)))).await;
            if !matches!(sent, Ok(Ok(()))) {
                info!(signal = queue.signal(), count = rest.len(), "records are lost: the collector is away");
            }
        }
    }
}
