//! One watch for all pods of the node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::RwLock;
use tokio::sync::watch;
use tracing::warn;

/// A pod without the variables of a Service is better than no pod.
const PATIENCE: Duration = Duration::from_secs(5);

type Key = (String, String);

#[derive(Clone)]
pub struct Services {
    all: Arc<RwLock<BTreeMap<Key, core::Service>>>,
    synced: watch::Receiver<bool>,
}

impl Services {
    /// The Services and the task that keeps them.
    pub fn new(client: kube::Client) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, synced) = watch::channel(false);
        let services = Services { all: Arc::default(), synced };
        (services.clone(), follow(client, services.all, sender))
    }

    /// Waits until the Services were listed once.
    pub async fn synced(&self) {
        let mut synced = self.synced.clone();
        if tokio::time::timeout(PATIENCE, synced.wait_for(|synced| *synced)).await.is_err() {
            warn!("the Services are not known yet: a container starts without their variables");
        }
    }

    /// Those of one namespace, in the order of their names.
    pub fn of_namespace(&self, namespace: &str) -> Vec<core::Service> {
        let all = self.all.read();
        all.iter().filter(|((ns, _), _)| ns == namespace).map(|(_, service)| service.clone()).collect()
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<core::Service> {
        self.all.read().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}

async fn follow(
    client: kube::Client,
    all: Arc<RwLock<BTreeMap<Key, core::Service>>>,
    synced: watch::Sender<bool>,
) {
    let api: Api<core::Service> = Api::all(client);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut listed = BTreeMap::new();
    let mut events = events.as_mut().modify(|service: &mut core::Service| {
        // Nobody here reads them.
        service.metadata.managed_fields = None;
    });
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(service)) => {
                listed.insert(key(&service), service);
            }
            Ok(watcher::Event::InitDone) => {
                *all.write() = std::mem::take(&mut listed);
                let _ = synced.send(true);
            }
            Ok(watcher::Event::Apply(service)) => {
                all.write().insert(key(&service), service);
            }
            Ok(watcher::Event::Delete(service)) => {
                all.write().remove(&key(&service));
            }
            Err(error) => warn!(%error, "cannot watch Services"),
        }
    }
}

fn key(service: &core::Service) -> Key {
    let meta = &service.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
