//! API aggregation: groups and versions that other servers answer, as APIServices say.
//!
//! A request is authenticated and authorized here as any other, and passed on with headers that say whose it is. Other
//! servers are looked at every few seconds; one that does not answer is told of in its APIService and not asked.

mod availability;
mod backend;
mod configuration;
mod discovery;
mod proxy;
mod schemas;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use minik8s_auth::pki::{FrontProxy, PkiError};
use minik8s_store::{Entry, Store};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use discovery::{add_groups, add_to_index, aggregated_groups};
pub use schemas::published;

use self::backend::Backend;
use crate::admission::followed;
use crate::api::Api;
use crate::catalog::Snapshot;
use crate::error::Result;

const PREFIX: &str = "/registry/apiregistration.k8s.io/apiservices/";
/// How often a server is looked at that nothing is known to have changed about.
const INTERVAL: Duration = Duration::from_secs(5);

pub struct Aggregator {
    front_proxy: FrontProxy,
    backends: RwLock<Arc<Vec<Arc<Backend>>>>,
    changed: Notify,
}

impl Aggregator {
    pub fn new(front_proxy: FrontProxy) -> Self {
        Aggregator { front_proxy, backends: RwLock::default(), changed: Notify::new() }
    }

    pub fn backends(&self) -> Arc<Vec<Arc<Backend>>> {
        self.backends.read().clone()
    }

    /// Who answers this path; None: this server. What it serves itself cannot be taken from it.
    pub fn find(&self, snapshot: &Snapshot, path: &str) -> Option<Arc<Backend>> {
        let backends = self.backends.read();
        if backends.is_empty() {
            return None;
        }
        let path = path.trim_start_matches('/');
        let below = path.strip_prefix("openapi/v3/").unwrap_or(path).strip_prefix("apis/")?;
        let mut parts = below.split('/');
        let (group, version) = (parts.next()?, parts.next()?);
        let found = backends.iter().find(|backend| backend.group == group && backend.version == version)?;
        snapshot.of_version(group, version).next().is_none().then(|| found.clone())
    }

    pub fn renew(&self, now: Timestamp) -> std::result::Result<(), PkiError> {
        self.front_proxy.renew(now)
    }

    /// Reads all APIServices.
    pub async fn load(&self, store: &dyn Store) -> Result<()> {
        followed::load(store, PREFIX, &|entries| self.take(entries)).await.map(drop)
    }

    fn take(&self, entries: &[Entry]) {
        #[derive(Deserialize)]
        struct Stored {
            #[serde(default)]
            spec: Value,
        }
        let before = self.backends();
        let identity = self.front_proxy.client();
        let backends = entries.iter().filter_map(|entry| {
            let name = entry.key.strip_prefix(PREFIX)?;
            let spec = serde_json::from_slice::<Stored>(&entry.value).ok()?.spec;
            if let Some(known) = before.iter().find(|known| known.name == name && known.spec == spec) {
                return Some(known.clone());
            }
            Backend::of(name, &spec, &identity).map(Arc::new)
        });
        *self.backends.write() = Arc::new(backends.collect());
        self.changed.notify_one();
    }
}

/// Follows the APIServices, looks after the servers behind them and tells them whom to trust, until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    let take = |entries: &[Entry]| api.aggregator.take(entries);
    let look = async {
        loop {
            if let Err(error) = configuration::publish(&api).await {
                tracing::warn!(%error, "extension API servers cannot be told whom to trust; trying again");
            }
            availability::check_all(&api).await;
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = api.aggregator.changed.notified() => {}
            }
        }
    };
    tokio::select! {
        () = followed::follow(&*api.registry.store, PREFIX, &take) => {}
        () = look => {}
        () = stop.cancelled() => {}
    }
}
