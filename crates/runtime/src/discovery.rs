//! Which kinds there are: asked of the API's discovery at start, and again whenever a custom kind comes or
//! goes. Controllers that care for all kinds (garbage collection, deletion of namespaces) share it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, OwnerReference};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{Backoff, Caches, Key, Kind, Object};

/// Changes of custom kinds that come together are looked at together.
const SETTLE: Duration = Duration::from_millis(100);
const RETRY: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(10) };

/// Called for every kind when it is first known.
type Follower = Box<dyn Fn(&Kind) + Send + Sync>;

#[derive(Default)]
pub struct Catalog {
    kinds: RwLock<Vec<Kind>>,
    followers: RwLock<Vec<Follower>>,
}

impl Catalog {
    /// Kinds that can be listed, watched and deleted; one entry per group and plural.
    pub fn kinds(&self) -> Vec<Kind> {
        self.kinds.read().clone()
    }

    /// Calls back for every kind known now and every kind that comes later.
    pub fn follow(&self, follower: Follower) {
        let mut followers = self.followers.write();
        self.kinds.read().iter().for_each(&follower);
        followers.push(follower);
    }

    /// The object an owner reference in `namespace` means; None if there is no such kind.
    pub fn owner(&self, reference: &OwnerReference, namespace: &str) -> Option<(Kind, Key)> {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        let kinds = self.kinds.read();
        let kind = kinds.iter().find(|kind| kind.group == group && kind.kind == reference.kind)?;
        let namespace = if kind.namespaced { namespace } else { "" };
        Some((kind.clone(), Key::new(namespace, &*reference.name)))
    }

    /// Takes over what discovery says; gives the kinds that are gone.
    pub fn update(&self, found: Vec<Kind>) -> Vec<Kind> {
        let old = std::mem::replace(&mut *self.kinds.write(), found.clone());
        let followers = self.followers.read();
        for kind in found.iter().filter(|kind| !old.contains(kind)) {
            followers.iter().for_each(|follower| follower(kind));
        }
        old.into_iter().filter(|kind| !found.contains(kind)).collect()
    }

    /// Keeps the catalog current until `stop`.
    pub async fn run(self: Arc<Self>, client: Client, caches: Arc<Caches>, stop: CancellationToken) {
        let changed = Arc::new(Notify::new());
        for_changes::<CustomResourceDefinition>(&caches, &changed);
        for_changes::<APIService>(&caches, &changed);
        let mut failures = 0;
        loop {
            let pause = match discover(&client).await {
                Ok(found) => {
                    failures = 0;
                    for gone in self.update(found) {
                        caches.remove(&gone);
                    }
                    None
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "cannot discover the API's kinds, will retry");
                    Some(RETRY.after(failures))
                }
            };
            let wake = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => {
                        changed.notified().await;
                        tokio::time::sleep(SETTLE).await;
                    }
                }
            };
            tokio::select! {
                () = wake => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

fn for_changes<K: Object>(caches: &Caches, changed: &Arc<Notify>) {
    let changed = changed.clone();
    caches.of::<K>().listen(Box::new(move |_, _| changed.notify_one()));
}

async fn discover(client: &Client) -> Result<Vec<Kind>, kube::Error> {
    let mut kinds = Vec::new();
    let core = client.list_core_api_resources("v1").await?;
    kinds.extend(core.resources.iter().filter_map(|resource| kind_of("", "v1", resource)));
    for group in client.list_api_groups().await?.groups {
        let Some(version) = group.preferred_version.or_else(|| group.versions.first().cloned()) else {
            continue;
        };
        // A group whose server is away must not stop all others.
        let Ok(list) = client.list_api_group_resources(&version.group_version).await else { continue };
        let found = list.resources.iter().filter_map(|r| kind_of(&group.name, &version.version, r));
        kinds.extend(found);
    }
    Ok(kinds)
}

fn kind_of(group: &str, version: &str, resource: &APIResource) -> Option<Kind> {
    let can = |verb: &str| resource.verbs.iter().any(|v| v == verb);
    if resource.name.contains('/') || !["list", "watch", "delete"].into_iter().all(can) {
        return None;
    }
    Some(Kind {
        group: group.to_owned().into(),
        version: version.to_owned().into(),
        kind: resource.kind.clone().into(),
        plural: resource.name.clone().into(),
        namespaced: resource.namespaced,
    })
}

/// Events are many, own nothing, and nobody owns them.
pub fn is_event(kind: &Kind) -> bool {
    kind.plural == "events" && (kind.group.is_empty() || kind.group == "events.k8s.io")
}
