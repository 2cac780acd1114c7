//! The objects of one kind as the API server last told them, followed by a task of their own.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

/// Namespace and name.
pub type Name = (String, String);

/// Ends the watch when it is dropped.
pub struct Source<K> {
    state: Arc<Mutex<State<K>>>,
    _task: AbortOnDropHandle<()>,
}

struct State<K> {
    known: BTreeMap<Name, Arc<K>>,
    /// What a new list has shown so far: it replaces the known objects when it is complete.
    listing: BTreeMap<Name, Arc<K>>,
    complete: bool,
}

impl<K> Source<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// `slim` takes away what nobody here reads; `changed` is told of objects that matter.
    pub fn follow(
        api: Api<K>,
        config: Config,
        changed: Arc<Notify>,
        slim: fn(&mut K),
        matters: impl Fn(&K) -> bool + Send + 'static,
    ) -> Self {
        let state =
            Arc::new(Mutex::new(State { known: BTreeMap::new(), listing: BTreeMap::new(), complete: false }));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(api, config).default_backoff());
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => {
                        if shared.lock().take(event, slim, &matters) {
                            changed.notify_one();
                        }
                    }
                    Err(error) => {
                        warn!(%error, "the router lost sight of {}; routes stay as they are", K::plural(&()));
                    }
                }
            }
        });
        Source { state, _task: AbortOnDropHandle::new(task) }
    }

    /// Whether all objects were seen once.
    pub fn is_complete(&self) -> bool {
        self.state.lock().complete
    }

    pub fn list(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.state.lock().known.values().filter(|object| wanted(object)).cloned().collect()
    }
}

impl<K: ResourceExt> State<K> {
    /// Whether what is known changed in a way that matters.
    fn take(&mut self, event: Event<K>, slim: fn(&mut K), matters: &impl Fn(&K) -> bool) -> bool {
        let slimmed = |mut object: K| {
            object.managed_fields_mut().clear();
            slim(&mut object);
            (name(&object), Arc::new(object))
        };
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                let (name, object) = slimmed(object);
                self.listing.insert(name, object);
            }
            Event::InitDone => {
                self.known = std::mem::take(&mut self.listing);
                self.complete = true;
                return true;
            }
            Event::Apply(object) => {
                let (name, object) = slimmed(object);
                let old = self.known.insert(name, object.clone());
                return matters(&object) || old.is_some_and(|old| matters(&old));
            }
            Event::Delete(object) => {
                return self.known.remove(&name(&object)).is_some_and(|old| matters(&old));
            }
        }
        false
    }
}

fn name<K: ResourceExt>(object: &K) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}
