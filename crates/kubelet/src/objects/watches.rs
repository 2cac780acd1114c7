//! Tells pods when a ConfigMap, Secret or ClusterTrustBundle that they refer to changes.
//!
//! One watch per object, shared by all pods that refer to it, and gone with the last of them. A watch says
//! only *that* something changed; who wants to know *what* asks the API server. What the watch has shown is for
//! the time when that is away.

use std::any::Any;
use std::sync::Arc;

use futures::future::select_all;
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use k8s_openapi::api::core::v1 as core;
use minik8s_informer::{Caches, Informer, Key, ListOptions, Object};
use tokio::sync::watch;

use super::trust_bundles::{self, TrustBundles};
use super::{Data, References, config_map_data, secret_data};

pub struct ObjectWatches(Arc<Caches>);

/// A pod's interest in its objects.
#[derive(Default)]
pub struct Subscription {
    references: References,
    /// What keeps each watch alive, and its changes.
    watches: Vec<(Arc<dyn Any + Send + Sync>, watch::Receiver<u64>)>,
}

impl Subscription {
    /// Waits until any of the objects changes; for ever if there are none. The first sight of an object is a change too:
    /// it may be newer than what was used.
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

    fn add<K: Object>(&mut self, informer: Arc<Informer<K>>) {
        let changes = informer.generation();
        self.watches.push((informer, changes));
    }
}

impl ObjectWatches {
    pub fn new(caches: Arc<Caches>) -> Self {
        ObjectWatches(caches)
    }

    pub fn subscribe(&self, namespace: &str, references: References) -> Subscription {
        let mut subscription = Subscription::default();
        for name in &references.config_maps {
            subscription.add(self.one::<core::ConfigMap>(namespace, name));
        }
        for name in &references.secrets {
            subscription.add(self.one::<core::Secret>(namespace, name));
        }
        if references.trust_bundles {
            subscription.add(self.0.informer::<ClusterTrustBundle>(ListOptions::default()));
        }
        Subscription { references, ..subscription }
    }

    fn one<K: Object>(&self, namespace: &str, name: &str) -> Arc<Informer<K>> {
        self.0.informer(ListOptions::fields(format!("metadata.name={name}")).within(namespace))
    }

    /// As [`Self::last_config_map`].
    pub fn last_trust_bundles(&self) -> Option<TrustBundles> {
        trust_bundles::last(&*self.0.held(&ListOptions::default())?)
    }

    /// What the watch has shown last, for when the API server is away. `None`: there is no watch, or it has shown
    /// nothing yet.
    pub fn last_config_map(&self, namespace: &str, name: &str) -> Option<Option<Data>> {
        self.last(namespace, name, config_map_data)
    }

    pub fn last_secret(&self, namespace: &str, name: &str) -> Option<Option<Data>> {
        self.last(namespace, name, secret_data)
    }

    fn last<K: Object>(&self, namespace: &str, name: &str, data: fn(K) -> Data) -> Option<Option<Data>> {
        let one = ListOptions::fields(format!("metadata.name={name}")).within(namespace);
        let informer: Arc<Informer<K>> = self.0.held(&one)?;
        let object = informer.get(&Key::new(namespace, name));
        informer.is_synced().then(|| object.map(|object| data(K::clone(&object))))
    }
}
