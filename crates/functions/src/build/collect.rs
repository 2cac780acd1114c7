//! Removes dependencies that no revision uses any more from the registry of the server that leads.
//!
//! What is used stands on the ConfigMaps of revisions, which go with their function. An image is removed when it was used by
//! none of them twice in a row: between the two it may have been pushed for one that was not told yet. The registry itself
//! collects what the images were made of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};
use minik8s_meta::function::{DEPENDENCIES_ANNOTATION, DEPENDENCIES_REPOSITORY, FUNCTION_LABEL};
use minik8s_meta::image_repository::ImageRepository;
use minik8s_registry::client::Repository;
use minik8s_runtime::Caches;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How often it is looked at without a reason.
const ROUND: Duration = Duration::from_secs(600);
/// Between the two looks.
const GRACE: Duration = Duration::from_secs(10);

/// Namespace and digest.
type Image = (String, String);

/// Until it is told to stop.
pub async fn run(client: Client, caches: Arc<Caches>, leads: watch::Receiver<bool>, stop: CancellationToken) {
    let gone = Arc::new(Notify::new());
    caches.of::<ConfigMap>().listen(Box::new({
        let gone = gone.clone();
        move |old, new| {
            if new.is_none() && old.is_some_and(|map| image_of(map).is_some()) {
                gone.notify_one();
            }
        }
    }));
    let mut unused = BTreeSet::new();
    loop {
        let wait = if unused.is_empty() { ROUND } else { GRACE };
        tokio::select! {
            () = stop.cancelled() => return,
            () = gone.notified(), if unused.is_empty() => {}
            () = tokio::time::sleep(wait) => {}
        }
        if !*leads.borrow() {
            unused.clear();
            continue;
        }
        match find_unused(&client).await {
            Ok(found) => {
                for (namespace, digest) in found.intersection(&unused) {
                    let repository = Repository::new(&client, namespace, DEPENDENCIES_REPOSITORY);
                    match repository.delete_manifest(digest).await {
                        Ok(()) => tracing::info!(namespace, digest, "removed dependencies that no function uses"),
                        Err(error) => tracing::warn!(%error, namespace, digest, "unused dependencies stay"),
                    }
                }
                unused = found.difference(&unused).cloned().collect();
            }
            Err(error) => tracing::warn!(%error, "dependencies that no function uses stay for now"),
        }
    }
}

/// Asks the API, not caches: one that is behind would make what is used look unused.
async fn find_unused(client: &Client) -> kube::Result<BTreeSet<Image>> {
    let repositories: Api<ImageRepository> = Api::all(client.clone());
    let all = match repositories.list(&ListParams::default()).await {
        // The registry is switched off.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(BTreeSet::new()),
        listed => listed?.items.into_iter(),
    };
    let mut images: BTreeSet<Image> = BTreeSet::new();
    for repository in all.filter(|one| one.metadata.name.as_deref() == Some(DEPENDENCIES_REPOSITORY)) {
        let namespace = repository.metadata.namespace.unwrap_or_default();
        images.extend(repository.tags.into_iter().map(|tag| (namespace.clone(), tag.digest)));
    }
    if images.is_empty() {
        return Ok(images);
    }
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let maps = maps.list_metadata(&ListParams::default().labels(FUNCTION_LABEL)).await?;
    for map in maps.items {
        let namespace = map.metadata.namespace.unwrap_or_default();
        let image = map.metadata.annotations.unwrap_or_default().remove(DEPENDENCIES_ANNOTATION);
        if let Some((_, digest)) = image.as_deref().and_then(|image| image.split_once('@')) {
            images.remove(&(namespace, digest.to_owned()));
        }
    }
    Ok(images)
}

fn image_of(map: &ConfigMap) -> Option<&String> {
    map.metadata.annotations.as_ref()?.get(DEPENDENCIES_ANNOTATION)
}
