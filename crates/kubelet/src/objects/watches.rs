//! Tells pods when a ConfigMap or Secret that they refer to changes.
//!
//! One watch per object, shared by all pods that refer to it, and gone with the last of them. A watch says
//! only *that* something changed; who wants to know *what* asks the API server. What the watch has shown is for
//! the time when that is away.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Weak};

use futures::StreamExt;
use futures::future::select_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Data, References, config_map_data, secret_data};

const CONFIG_MAP: &str = "ConfigMap";
const SECRET: &str = "Secret";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: &'static str,
    namespace: String,
    name: String,
}

pub struct ObjectWatches {
    client: kube::Client,
    running: Mutex<BTreeMap<Key, Weak<Watch>>>,
}

struct Watch {
    changes: watch::Receiver<u64>,
    sight: Arc<Mutex<Sight>>,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A pod's interest in its objects.
#[derive(Default)]
pub struct Subscription {
    references: References,
    watches: Vec<(Arc<Watch>, watch::Receiver<u64>)>,
}

impl Subscription {
    /// Waits until any of the objects changes; for ever if there are none.
    pub async fn changed(&mut self) {
        if self.watches.is_empty() {
            return std::future::pending().await;
        }
        let changes = self.watches.iter_mut().map(|(_, changes)| Box::pin(changes.changed()));
        if select_all(changes).await.0.is_err() {
            // The watch ended, which it does only with the agent.
            std::future::pending::<()>().await;
        }
    }

    pub fn covers(&self, references: &References) -> bool {
        self.references == *references
    }
}

impl ObjectWatches {
    pub fn new(client: kube::Client) -> Self {
        ObjectWatches { client, running: Mutex::default() }
    }

    pub fn subscribe(&self, namespace: &str, references: References) -> Subscription {
        let key = |kind: &'static str, name: &String| Key {
            kind,
            namespace: namespace.to_owned(),
            name: name.clone(),
        };
        let config_maps = references.config_maps.iter().map(|name| key(CONFIG_MAP, name));
        let secrets = references.secrets.iter().map(|name| key(SECRET, name));
        let watches = config_maps.chain(secrets).map(|key| {
            let watch = self.watch(key);
            let mut changes = watch.changes.clone();
            changes.mark_unchanged();
            (watch, changes)
        });
        Subscription { watches: watches.collect(), references }
    }

    /// What the watch has shown last, for when the API server is away. `None`: there is no watch, or it has shown
    /// nothing yet.
    pub fn last_config_map(&self, namespace: &str, name: &str) -> Option<Option<Data>> {
        self.last(CONFIG_MAP, namespace, name)
    }

    pub fn last_secret(&self, namespace: &str, name: &str) -> Option<Option<Data>> {
        self.last(SECRET, namespace, name)
    }

    fn last(&self, kind: &'static str, namespace: &str, name: &str) -> Option<Option<Data>> {
        let key = Key { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        let watch = self.running.lock().get(&key).and_then(Weak::upgrade)?;
        let sight = watch.sight.lock();
        sight.known.then(|| sight.object.as_ref().map(|seen| seen.data.clone()))
    }

    fn watch(&self, key: Key) -> Arc<Watch> {
        let mut running = self.running.lock();
        running.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = running.get(&key).and_then(Weak::upgrade) {
            return watch;
        }
        let (sender, changes) = watch::channel(0);
        let (client, sight) = (self.client.clone(), Arc::<Mutex<Sight>>::default());
        let (name, shown) = (key.name.clone(), sight.clone());
        let task = match key.kind {
            SECRET => {
                let api = Api::<core::Secret>::namespaced(client, &key.namespace);
                tokio::spawn(follow(api, name, secret_data, shown, sender))
            }
            _ => {
                let api = Api::<core::ConfigMap>::namespaced(client, &key.namespace);
                tokio::spawn(follow(api, name, config_map_data, shown, sender))
            }
        };
        let watch = Arc::new(Watch { changes, sight, task });
        running.insert(key, Arc::downgrade(&watch));
        watch
    }
}

/// Counts changes for ever. The first sight of an object is a change too: it may be newer than what was used.
async fn follow<K>(
    api: Api<K>,
    name: String,
    data: fn(K) -> Data,
    sight: Arc<Mutex<Sight>>,
    changes: watch::Sender<u64>,
) where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned + Send + 'static,
{
    let one = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(api, one).default_backoff());
    while let Some(event) = events.next().await {
        if event.is_ok_and(|event| sight.lock().see(event, data)) {
            changes.send_modify(|count| *count += 1);
        }
    }
}

/// What a watch has shown of one object.
#[derive(Default)]
struct Sight {
    known: bool,
    /// `None` if the object is not there.
    object: Option<Seen>,
    /// The same, for a list that is not yet complete: an object that it does not name has gone.
    listed: Option<Seen>,
}

struct Seen {
    version: Option<String>,
    data: Data,
}

impl Sight {
    /// Whether the object is another one than before.
    fn see<K: kube::Resource>(&mut self, event: watcher::Event<K>, data: fn(K) -> Data) -> bool {
        let seen = |object: K| Seen { version: object.meta().resource_version.clone(), data: data(object) };
        let now = match event {
            watcher::Event::Init => {
                self.listed = None;
                return false;
            }
            watcher::Event::InitApply(object) => {
                self.listed = Some(seen(object));
                return false;
            }
            watcher::Event::InitDone => self.listed.take(),
            watcher::Event::Apply(object) => Some(seen(object)),
            watcher::Event::Delete(_) => None,
        };
        let version = |seen: &Option<Seen>| seen.as_ref().and_then(|seen| seen.version.clone());
        let differs = version(&now) != version(&self.object);
        (self.object, self.known) = (now, true);
        differs
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use watcher::Event;

    use super::*;

    fn object(version: &str) -> core::Secret {
        let metadata = ObjectMeta { resource_version: Some(version.to_owned()), ..Default::default() };
        core::Secret { metadata, ..Default::default() }
    }

    #[test]
    fn every_change_is_seen_once() {
        let check = |events: Vec<Event<core::Secret>>, want: usize| {
            let mut sight = Sight::default();
            let changes = events.iter().filter(|event| sight.see((*event).clone(), secret_data)).count();
            assert_eq!(changes, want, "{events:?}");
        };
        let absent = || vec![Event::Init, Event::InitDone];
        let listed = |version: &str| vec![Event::Init, Event::InitApply(object(version)), Event::InitDone];
        let then = |parts: Vec<Vec<Event<core::Secret>>>| parts.concat();
        check(absent(), 0);
        check(listed("1"), 1);
        check(then(vec![absent(), vec![Event::Apply(object("1")), Event::Apply(object("2"))]]), 2);
        // The watch broke off and began anew: the same, a newer one, none at all.
        check(then(vec![listed("1"), listed("1")]), 1);
        check(then(vec![listed("1"), listed("2")]), 2);
        check(then(vec![listed("1"), absent()]), 2);
        check(then(vec![listed("1"), vec![Event::Delete(object("2"))], listed("3")]), 3);
    }
}
