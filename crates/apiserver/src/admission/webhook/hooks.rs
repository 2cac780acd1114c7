//! The webhooks of the cluster, kept current by watching the store.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;
use minik8s_store::{Entry, Store};
use parking_lot::RwLock;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::hook::{Hook, Hooked};
use crate::admission::followed;
use crate::error::Result;

const MUTATING: &str = "/registry/admissionregistration.k8s.io/mutatingwebhookconfigurations/";
const VALIDATING: &str = "/registry/admissionregistration.k8s.io/validatingwebhookconfigurations/";

/// In the order in which they are asked: by the names of their configurations, then as they stand there.
#[derive(Default)]
pub struct Hooks {
    mutating: RwLock<Hooked>,
    validating: RwLock<Hooked>,
}

impl Hooks {
    pub fn mutating(&self) -> Hooked {
        self.mutating.read().clone()
    }

    pub fn validating(&self) -> Hooked {
        self.validating.read().clone()
    }

    pub fn is_empty(&self) -> bool {
        self.mutating.read().is_empty() && self.validating.read().is_empty()
    }

    /// Reads all of them, so that the first write is judged rightly.
    pub async fn load(&self, store: &dyn Store) -> Result<()> {
        for (prefix, place) in [(MUTATING, &self.mutating), (VALIDATING, &self.validating)] {
            followed::load(store, prefix, &|entries| take(prefix, place, entries)).await?;
        }
        Ok(())
    }

    /// Follows them until `stop`.
    pub async fn run(self: Arc<Self>, store: Arc<dyn Store>, stop: CancellationToken) {
        let mutating = |entries: &[Entry]| take(MUTATING, &self.mutating, entries);
        let validating = |entries: &[Entry]| take(VALIDATING, &self.validating, entries);
        tokio::select! {
            () = followed::follow(&*store, MUTATING, &mutating) => {}
            () = followed::follow(&*store, VALIDATING, &validating) => {}
            () = stop.cancelled() => {}
        }
    }
}

fn take(prefix: &str, place: &RwLock<Hooked>, entries: &[Entry]) {
    let hooks = entries.iter().flat_map(|entry| {
        let name = entry.key.strip_prefix(prefix).unwrap_or_default();
        read(name, &entry.value)
    });
    *place.write() = Arc::new(hooks.collect());
}

/// The part of both configurations that matters here.
#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    webhooks: Vec<MutatingWebhook>,
}

fn read(name: &str, value: &[u8]) -> Vec<Arc<Hook>> {
    let configuration: Configuration = match serde_json::from_slice(value) {
        Ok(configuration) => configuration,
        Err(error) => {
            tracing::error!(name, %error, "a webhook configuration cannot be read and is not asked");
            return Vec::new();
        }
    };
    let hooks = configuration.webhooks.into_iter().map(|webhook| Hook::new(name, webhook));
    let readable = hooks.filter_map(|hook| {
        hook.inspect_err(|why| tracing::error!(name, why, "a webhook cannot be understood and is not asked"))
            .ok()
    });
    readable.map(Arc::new).collect()
}
