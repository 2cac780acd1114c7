//! Sends a log file to its end and, if wanted, beyond. Files are read on threads that may block.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use minik8s_meta::Backoff;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::Options;
use super::log::{Log, Seen};
use crate::cri::Runtime;

/// A follower looks for new lines this often at first, and less often while there are none.
const LOOKS: Backoff = Backoff::millis(20, 250);
const STATE_CHECK: Duration = Duration::from_secs(1);

pub struct Reader {
    pub runtime: Arc<dyn Runtime>,
    pub uid: String,
    pub id: String,
    pub path: PathBuf,
    pub options: Options,
}

impl Reader {
    /// Sends the log until it ends, the reader goes away, or the limit is reached.
    pub async fn run(self, sender: mpsc::Sender<Bytes>) {
        let (path, options) = (self.path.clone(), self.options.clone());
        // A log that cannot be read is an empty one: the container may just have been removed.
        let Ok(Ok(mut log)) = spawn_blocking(move || Log::open(&path, options)).await else { return };
        let mut looks = LOOKS.retries();
        let mut checked = Instant::now();
        let mut ended = false;
        loop {
            let look = spawn_blocking(move || {
                let seen = log.read();
                (log, seen)
            });
            let Ok((same, Ok(seen))) = look.await else { return };
            log = same;
            match seen {
                Seen::Chunk(chunk) => {
                    looks.succeeded();
                    if sender.send(chunk.into()).await.is_err() {
                        return;
                    }
                    continue;
                }
                Seen::Last(chunk) => {
                    let _ = sender.send(chunk.into()).await;
                    return;
                }
                Seen::Nothing => {}
            }
            if !self.options.follow || ended {
                return;
            }
            if checked.elapsed() >= STATE_CHECK || sender.is_closed() {
                checked = Instant::now();
                // One more round after the end: the last lines may have come in between.
                ended = !self.is_running().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(looks.failed()) => {}
                () = sender.closed() => return,
            }
        }
    }

    async fn is_running(&self) -> bool {
        match self.runtime.pod(&self.uid).await {
            Ok(pod) => pod.containers.iter().any(|c| c.id == self.id && c.is_running()),
            // containerd is away; the container is not.
            Err(_) => true,
        }
    }
}
