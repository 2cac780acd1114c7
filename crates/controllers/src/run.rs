//! All controllers together.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use kube::Client;
use minik8s_runtime::{Caches, Manager, Settings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::deployment::Deployments;
use crate::replicas::Replicas;

/// What the controllers need to be told.
pub struct Config {
    pub stop: CancellationToken,
    /// Work is done only while this says true.
    pub leads: watch::Receiver<bool>,
    /// Caches to share with others of this process.
    pub caches: Option<Arc<Caches>>,
}

impl Default for Config {
    fn default() -> Self {
        let settings = Settings::default();
        Config { stop: settings.stop, leads: settings.leads, caches: None }
    }
}

/// Runs every controller until `config.stop`.
pub async fn run(client: Client, config: Config) {
    let Config { stop, leads, caches } = config;
    let caches = caches.unwrap_or_else(|| Caches::new(client.clone(), stop.clone()));
    let mut manager = Manager::new(client, caches, Settings { stop, leads });
    manager.add(Replicas::<ReplicaSet>::default());
    manager.add(Replicas::<ReplicationController>::default());
    manager.add(Deployments);
    manager.run().await;
}
