//! Those who wait for the end of a call: told by the cache that controllers look at, so nobody asks again and again.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use minik8s_feature::Parts;
use minik8s_meta::function::{Function, REVISION_READY};
use minik8s_meta::invocation::Invocation;
use minik8s_runtime::{Cache, Key, key_of};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

#[derive(Default)]
pub struct Waiters {
    waiting: Arc<Waiting>,
    functions_changed: Arc<Notify>,
    means: RwLock<Option<Means>>,
}

type Waiting = Mutex<HashMap<Key, Arc<Notify>>>;

#[derive(Clone)]
pub struct Means {
    pub client: Client,
    pub functions: Arc<Cache<Function>>,
    pub invocations: Arc<Cache<Invocation>>,
}

impl Waiters {
    pub fn start(&self, parts: &Parts) {
        let means = Means {
            client: parts.client.clone(),
            functions: parts.caches.of::<Function>(),
            invocations: parts.caches.of::<Invocation>(),
        };
        let waiting = self.waiting.clone();
        means.invocations.listen(Box::new(move |_, new| {
            if let Some(new) = new.filter(|new| new.has_ended())
                && let Some(notify) = waiting.lock().get(&key_of(&**new))
            {
                notify.notify_one();
            }
        }));
        let changed = self.functions_changed.clone();
        means.functions.listen(Box::new(move |_, _| changed.notify_waiters()));
        *self.means.write() = Some(means);
    }

    /// Until the first revision of a function answers or is known not to: routers do not know one that was just made.
    pub async fn known_to_routers(&self, means: &Means, key: &Key) {
        loop {
            let mut changed = std::pin::pin!(self.functions_changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if means.functions.get(key).is_none_or(|function| is_tried(&function)) {
                return;
            }
            changed.await;
        }
    }

    pub fn means(&self) -> Option<Means> {
        self.means.read().clone()
    }

    /// Before the call is made, so that its end is not missed.
    pub fn expect(&self, namespace: &str, name: &str) -> Expected {
        let key = Key::new(namespace, name);
        let notify = Arc::new(Notify::new());
        self.waiting.lock().insert(key.clone(), notify.clone());
        Expected { key, notify, waiting: self.waiting.clone() }
    }
}

fn is_tried(function: &Function) -> bool {
    let Some(status) = &function.status else { return false };
    let failed = |one: &Condition| one.type_ == REVISION_READY && one.status == "False";
    status.serving_revision > 0 || status.conditions.iter().any(failed)
}

/// Forgotten when dropped.
pub struct Expected {
    key: Key,
    notify: Arc<Notify>,
    waiting: Arc<Waiting>,
}

impl Expected {
    pub async fn wait(&self, means: &Means) -> Arc<Invocation> {
        loop {
            self.notify.notified().await;
            if let Some(ended) = means.invocations.get(&self.key).filter(|one| one.has_ended()) {
                return ended;
            }
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.key);
    }
}
