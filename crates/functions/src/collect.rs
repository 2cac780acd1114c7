//! Removes code and dependencies that no revision has any more from the registry of the server that leads.
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
use minik8s_feature::Parts;
use minik8s_meta::function::{
    CODE_ANNOTATION, CODE_REPOSITORY, DEPENDENCIES_ANNOTATION, DEPENDENCIES_REPOSITORY, FUNCTION_LABEL,
};
use minik8s_meta::image_repository::ImageRepository;
use minik8s_registry::client::Repository;
use minik8s_runtime::Caches;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How often it is looked at without a reason.
const ROUND: Duration = Duration::from_secs(600);
/// Between the two looks.
const GRACE: Duration = Duration::from_secs(5);

/// What names of repositories begin with, and where revisions name images of them.
const KEPT: [(&str, &str); 2] =
    [(CODE_REPOSITORY, CODE_ANNOTATION), (DEPENDENCIES_REPOSITORY, DEPENDENCIES_ANNOTATION)];

/// Namespace, repository and digest.
type Image = (String, String, String);

pub fn start(parts: &mut Parts) {
    let (client, caches) = (parts.client.clone(), parts.caches.clone());
    parts.task(run(client, caches, parts.leads.clone(), parts.stop.clone()));
}

/// Until it is told to stop.
async fn run(client: Client, caches: Arc<Caches>, leads: watch::Receiver<bool>, stop: CancellationToken) {
    let gone = Arc::new(Notify::new());
    caches.of::<ConfigMap>().listen(Box::new({
        let gone = gone.clone();
        move |old, new| {
            if new.is_none() && old.is_some_and(|map| has_image(map)) {
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
                for (namespace, name, digest) in found.intersection(&unused) {
                    match Repository::new(&client, namespace, name).delete_manifest(digest).await {
                        Ok(()) => tracing::info!(namespace, name, digest, "removed what no function uses"),
                        Err(error) => {
                            tracing::warn!(%error, namespace, name, digest, "what no function uses stays")
                        }
                    }
                }
                unused = found.difference(&unused).cloned().collect();
            }
            Err(error) => tracing::warn!(%error, "what no function uses stays for now"),
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
    for repository in all {
        let (namespace, name) = (repository.metadata.namespace, repository.metadata.name);
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        if KEPT.iter().any(|(prefix, _)| name.starts_with(prefix)) {
            let tags = repository.tags.into_iter();
            images.extend(tags.map(|tag| (namespace.clone(), name.clone(), tag.digest)));
        }
    }
    if images.is_empty() {
        return Ok(images);
    }
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let maps = maps.list_metadata(&ListParams::default().labels(FUNCTION_LABEL)).await?;
    for map in maps.items {
        let namespace = map.metadata.namespace.unwrap_or_default();
        let annotations = map.metadata.annotations.unwrap_or_default();
        for (_, annotation) in KEPT {
            let image =
                annotations.get(annotation).and_then(|image| image.rsplit('/').next()?.split_once('@'));
            if let Some((name, digest)) = image {
                images.remove(&(namespace.clone(), name.to_owned(), digest.to_owned()));
            }
        }
    }
    Ok(images)
}

fn has_image(map: &ConfigMap) -> bool {
    let annotations = map.metadata.annotations.as_ref();
    annotations.is_some_and(|all| KEPT.iter().any(|(_, annotation)| all.contains_key(*annotation)))
}
