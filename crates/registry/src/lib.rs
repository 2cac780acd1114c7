//! A registry of images in the server: OCI's distribution protocol at `/v2/` of the API's port.
//!
//! Repositories are called `NAMESPACE/NAME` and are objects of the kind ImageRepository, so that rights to images are
//! rights of RBAC; the API server decides on them before anything here is asked. Bytes lie in the data dir of the server
//! that took them. Nothing here talks to other registries or to containerd. [`client`] is for whoever pushes to it.

mod answer;
pub mod client;
mod digest;
mod endpoint;
mod error;
mod kind;
mod manifest;
mod name;
mod protocol;
mod store;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};
use minik8s_informer::Lenient;
use tokio_util::sync::CancellationToken;

use store::{Limits, Store};

/// How often what nobody needs is removed.
const COLLECTION: Duration = Duration::from_secs(600);

/// The feature: its protocol, its kind, and the collection of what nobody needs.
#[derive(Clone, Default)]
pub struct ImageRegistry(Shelf);

/// The store, once the server knows where it keeps its files.
type Shelf = Arc<OnceLock<Arc<Store>>>;

impl ServerFeature for ImageRegistry {
    fn name(&self) -> &'static str {
        "registry"
    }

    fn extension(&self) -> Extension {
        Extension {
            kinds: vec![kind::resource(self.0.clone())],
            protocols: vec![Arc::new(protocol::Distribution(self.0.clone()))],
            ..Extension::default()
        }
    }

    fn start(&self, parts: &mut Parts) {
        let Some(data_dir) = &parts.data_dir else { return };
        let store = match Store::open(&data_dir.join("registry"), Limits::default()) {
            Ok(store) => self.0.get_or_init(|| Arc::new(store)).clone(),
            Err(error) => return tracing::error!(%error, "the registry of images has no place to keep them"),
        };
        parts.task(collect(store, parts.client.clone(), parts.stop.clone()));
    }
}

/// Every server by itself: each has blobs of its own.
async fn collect(store: Arc<Store>, client: Client, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = store.deletion() => {}
            () = tokio::time::sleep(COLLECTION) => {}
        }
        // Without the whole list every namespace would look as if it were gone.
        let namespaces = match Api::<Lenient<Namespace>>::all(client.clone())
            .list(&ListParams::default())
            .await
        {
            Ok(list) => list.items.into_iter().filter_map(|namespace| namespace.meta().uid.clone()).collect(),
            Err(error) => {
                tracing::warn!(%error, "images of deleted namespaces stay for now");
                continue;
            }
        };
        let collecting = store.clone();
        let collected = tokio::task::spawn_blocking(move || collecting.collect(&namespaces)).await;
        match collected {
            Ok(Ok(0)) => {}
            Ok(Ok(bytes)) => tracing::info!(bytes, "removed blobs of images that nobody needs"),
            Ok(Err(error)) => tracing::warn!(%error, "not all that nobody needs was removed"),
            Err(error) => tracing::error!(%error, "the collection of blobs failed"),
        }
    }
}
