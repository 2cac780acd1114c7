//! Tells pods when a ConfigMap or Secret that they refer to changes.
//!
//! One watch per object, shared by all pods that refer to it, and gone with the last of them. A watch says
//! only *that* something changed; who wants to know *what* asks the API server.

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

use super::References;

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
        let config_maps = references.config_maps.iter().map(|name| key("ConfigMap", name));
        let secrets = references.secrets.iter().map(|name| key("Secret", name));
        let watches = config_maps.chain(secrets).map(|key| {
            let watch = self.watch(key);
            let mut changes = watch.changes.clone();
            changes.mark_unchanged();
            (watch, changes)
        });
        Subscription { watches: watches.collect(), references }
    }

    fn watch(&self, key: Key) -> Arc<Watch> {
        let mut running = self.running.lock();
        running.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = running.get(&key).and_then(Weak::upgrade) {
            return watch;
        }
        let (sender, changes) = watch::channel(0);
        let client = self.client.clone();
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        let task = match key.kind {
            "Secret" => tokio::spawn(follow::<core::Secret>(client, namespace, name, sender)),
            _ => tokio::spawn(follow::<core::ConfigMap>(client, namespace, name, sender)),
        };
        let watch = Arc::new(Watch { changes, task });
        running.insert(key, Arc::downgrade(&watch));
        watch
    }
}

/// Counts changes for ever. The first sight of an object is a change too: it may be newer than what was used.
async fn follow<K>(client: kube::Client, namespace: String, name: String, changes: watch::Sender<u64>)
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::namespaced(client, &namespace);
    let one = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(api, one).default_backoff());
    let mut version = None;
    while let Some(event) = events.next().await {
        let seen = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                object.meta().resource_version.clone()
            }
            Ok(watcher::Event::Delete(_)) => None,
            _ => continue,
        };
        if seen != version {
            version = seen;
            changes.send_modify(|count| *count += 1);
        }
    }
}
