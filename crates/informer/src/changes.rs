//! What happens to the objects of a cache, for one who takes it at its own pace.
//!
//! Objects are shared with the cache, not copied.

use std::sync::Arc;

use tokio::sync::mpsc;

#[derive(Debug, Clone)]
pub enum Change<K> {
    Applied {
        old: Option<Arc<K>>,
        new: Arc<K>,
    },
    Removed(Arc<K>),
    /// A list is complete: what was told before it is all there is. Comes again when the watch had to begin anew.
    Synced,
    /// The server has no such kind; it may have it later.
    Absent,
}

/// Ends the subscription when dropped.
#[derive(Debug)]
pub struct Changes<K>(mpsc::UnboundedReceiver<Change<K>>);

impl<K> Changes<K> {
    pub(crate) fn new(receiver: mpsc::UnboundedReceiver<Change<K>>) -> Self {
        Changes(receiver)
    }

    /// Waits for the next change; for ever after the end of the cache.
    pub async fn next(&mut self) -> Change<K> {
        match self.0.recv().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }
}
