//! How many attempts at calls this node makes at once. Calls that wait for their next attempt hold no place, and those of one
//! namespace leave room for the others'.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

const OF_ALL: usize = 256;
const OF_NAMESPACE: usize = 64;

#[derive(Debug)]
pub struct Places {
    all: Semaphore,
    by_namespace: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Default for Places {
    fn default() -> Self {
        Places { all: Semaphore::new(OF_ALL), by_namespace: Mutex::default() }
    }
}

impl Places {
    /// Does the work of a call of this namespace once there is a place for it.
    pub async fn within<T>(&self, namespace: &str, work: impl Future<Output = T>) -> T {
        let own = self.of(namespace);
        // Who waits for its namespace's keeps nobody else from the node's.
        let _places: [Option<SemaphorePermit<'_>>; 2] =
            [own.acquire().await.ok(), self.all.acquire().await.ok()];
        work.await
    }

    fn of(&self, namespace: &str) -> Arc<Semaphore> {
        let mut known = self.by_namespace.lock();
        known.retain(|_, places| Arc::strong_count(places) > 1);
        let places = known.entry(namespace.to_owned());
        places.or_insert_with(|| Arc::new(Semaphore::new(OF_NAMESPACE))).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn calls_of_one_namespace_leave_room_for_others() {
        let places = Arc::new(Places::default());
        let mut busy = tokio::task::JoinSet::new();
        for _ in 0..2 * OF_NAMESPACE {
            let places = places.clone();
            busy.spawn(async move { places.within("a", pending::<()>()).await });
        }
        while places.all.available_permits() > OF_ALL - OF_NAMESPACE {
            tokio::task::yield_now().await;
        }
        assert_eq!(places.within("a", ready(1)).now_or_never(), None, "its places are taken");
        assert_eq!(places.within("b", ready(1)).now_or_never(), Some(1));
        busy.shutdown().await;
        assert_eq!(places.within("a", ready(1)).now_or_never(), Some(1));
        assert_eq!(places.by_namespace.lock().len(), 1, "those without calls are forgotten");
    }
}
