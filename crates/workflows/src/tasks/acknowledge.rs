//! Tells instances of functions which results are written down, so that they need not keep them. A few at a time, a
//! little later: nothing waits for it, and what never arrives is forgotten by the instance after an hour.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use minik8s_runtime::Caches;
use parking_lot::Mutex;

use super::function::{about, router};
use super::outgoing::{self, Target};

/// So long results are gathered.
const GATHER: Duration = Duration::from_millis(500);
/// Keys in one request, whose head is bounded.
const MOST: usize = 100;

/// Result keys by namespace and function.
type Waiting = BTreeMap<(String, String), Vec<String>>;

pub struct Acknowledgements {
    caches: Arc<Caches>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Acknowledgements {
    pub fn new(caches: Arc<Caches>) -> Self {
        Acknowledgements { caches, waiting: Arc::default() }
    }

    pub fn add(&self, namespace: &str, name: &str, key: &str) {
        let mut waiting = self.waiting.lock();
        let first = waiting.is_empty();
        waiting.entry((namespace.to_owned(), name.to_owned())).or_default().push(key.to_owned());
        if first {
            tokio::spawn(send(self.caches.clone(), self.waiting.clone()));
        }
    }
}

async fn send(caches: Arc<Caches>, waiting: Arc<Mutex<Waiting>>) {
    tokio::time::sleep(GATHER).await;
    let gathered = mem::take(&mut *waiting.lock());
    let Some(router) = router(&caches) else { return };
    for ((namespace, name), keys) in gathered {
        for some in keys.chunks(MOST) {
            let request: Option<Request<Bytes>> = about(&namespace, &name, "acknowledge", &some.join(","));
            if let Some(request) = request
                && let Err(error) = outgoing::send(Target { address: router, tls: None }, request).await
            {
                tracing::debug!(%error, function = name, "cannot acknowledge results");
            }
        }
    }
}
