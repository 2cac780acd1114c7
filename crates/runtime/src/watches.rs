//! How a controller says what wakes it: changes of objects become keys.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;

use crate::{AnyCache, Cached, Caches, Key, Kind, Object, controller_of, key_of};

/// Collects the watches of one controller. Every mapping runs for the old and the new state of an object,
/// so that whoever lost it hears of it too.
pub struct Watches<W> {
    caches: Arc<Caches>,
    sink: Arc<dyn Fn(W) + Send + Sync>,
    needed: Mutex<Vec<Arc<dyn AnyCache>>>,
}

impl<W: 'static> Watches<W> {
    pub fn new(caches: Arc<Caches>, sink: Arc<dyn Fn(W) + Send + Sync>) -> Self {
        Watches { caches, sink, needed: Mutex::default() }
    }

    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// Where keys go, for controllers that learn of work in other ways.
    pub fn sink(&self) -> Arc<dyn Fn(W) + Send + Sync> {
        self.sink.clone()
    }

    /// Keys for each object that changes.
    pub fn on<K: Object>(&self, map: impl Fn(&Caches, &K) -> Vec<W> + Send + Sync + 'static) {
        let caches = Arc::downgrade(&self.caches);
        self.on_change::<K>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            old.into_iter().chain(new).flat_map(|object| map(&caches, object)).collect()
        });
    }

    /// Keys for a change, seeing both sides of it.
    pub fn on_change<K: Object>(
        &self,
        map: impl Fn(Option<&K>, Option<&K>) -> Vec<W> + Send + Sync + 'static,
    ) {
        let cache = self.needs::<K>();
        let sink = self.sink.clone();
        cache.listen(Box::new(move |old, new| {
            for key in map(old.map(|o| &**o), new.map(|o| &**o)) {
                sink(key);
            }
        }));
    }

    /// Only read by `observe`: its changes wake nobody, but work waits until it is filled.
    pub fn needs<K: Object>(&self) -> Arc<crate::Cache<K>> {
        let cache = self.caches.of::<K>();
        self.needed.lock().push(cache.clone());
        cache
    }

    /// Waits until every cache that was named here holds its first list.
    pub fn synced(self) -> BoxFuture<'static, ()> {
        let needed = self.needed.into_inner();
        Box::pin(async move {
            for cache in needed {
                cache.wait_synced().await;
            }
        })
    }
}

impl Watches<Key> {
    /// Objects that are themselves the keys.
    pub fn own<K: Object>(&self) {
        self.on::<K>(|_, object| vec![key_of(object)]);
    }

    /// Objects whose controller is of kind `O`: its key.
    pub fn owned<K: Object, O: Object>(&self) {
        let owner_kind = Kind::of::<O>();
        self.on::<K>(move |_, object| owner_key(object.metadata(), &owner_kind).into_iter().collect());
    }
}

/// The key of the controller of an object if it is of this kind.
fn owner_key(meta: &ObjectMeta, owner_kind: &Kind) -> Option<Key> {
    let owner = controller_of(meta)?;
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    if owner.kind != owner_kind.kind || group != owner_kind.group {
        return None;
    }
    let namespace = if owner_kind.namespaced { meta.namespace.as_deref().unwrap_or("") } else { "" };
    Some(Key::new(namespace, &*owner.name))
}
