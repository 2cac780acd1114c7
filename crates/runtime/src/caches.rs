//! All caches of a process: one per kind, made when somebody first asks for it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use parking_lot::RwLock;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::glance::Glance;
use crate::reflect::reflect;
use crate::{Cache, Cached, Key, Kind, MetaOnly, Object};

/// What a listener that cares for metadata only gets to see: old and new.
pub type MetaChange<'a> = (Option<&'a ObjectMeta>, Option<&'a ObjectMeta>);

type MetaListener = Box<dyn Fn(&Kind, MetaChange<'_>) + Send + Sync>;

pub struct Caches {
    entries: RwLock<HashMap<(String, String), Entry>>,
    /// None in tests, where the test feeds the caches.
    source: Option<(Client, CancellationToken)>,
}

struct Entry {
    cache: Arc<dyn AnyCache>,
    /// Ends its watch.
    stop: CancellationToken,
}

/// A cache without its type.
pub trait AnyCache: Send + Sync {
    fn kind(&self) -> &Kind;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn metadata(&self, key: &Key) -> Option<ObjectMeta>;
    fn metadata_in(&self, namespace: &str) -> Vec<ObjectMeta>;
    fn listen_metadata(&self, listener: MetaListener);
    /// Shows the answer to our own write; gives the object's name, or None if it is not such an object.
    fn offer_json(&self, answer: &[u8]) -> Option<String>;
    fn is_meta_only(&self) -> bool;
    /// A complete list at `revision`.
    fn replace_json(&self, objects: &[Box<RawValue>], revision: u64);
    /// The watch shows an object; gives its version.
    fn apply_json(&self, object: &[u8]) -> serde_json::Result<String>;
    /// The watch shows that an object is gone; gives the version of its deletion.
    fn remove_json(&self, object: &[u8]) -> serde_json::Result<String>;
    /// How far the watch has come: every change up to this version is in.
    fn revision(&self) -> u64;
    /// The watch has come this far.
    fn advance(&self, revision: u64);
    fn forget(&self, key: &Key, uid: &str);
    /// Nothing of this kind exists any more.
    fn clear(&self);
    fn wait_synced(&self) -> BoxFuture<'_, ()>;
    fn is_synced(&self) -> bool;
}

impl Caches {
    /// Caches that watch through `client` until `stop`.
    pub fn new(client: Client, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Caches { entries: RwLock::default(), source: Some((client, stop)) })
    }

    /// Caches that only change when somebody calls their methods.
    pub fn detached() -> Arc<Self> {
        Arc::new(Caches { entries: RwLock::default(), source: None })
    }

    /// The cache of a kind; the first call starts its watch.
    pub fn of<K: Object>(&self) -> Arc<Cache<K>> {
        let kind = Kind::of::<K>();
        if let Some(cache) = self.find(&kind).and_then(|cache| cache.as_any().downcast().ok()) {
            return cache;
        }
        // Also when a metadata-only cache of this kind was there first: the fuller one takes its place
        // for new users, and the old one stays current for those who hold it.
        self.start::<K>(kind)
    }

    /// The cache of a kind known at run time: the typed one if there is one, else one of metadata only.
    pub fn of_kind(&self, kind: &Kind) -> Arc<dyn AnyCache> {
        self.find(kind).unwrap_or_else(|| self.start::<MetaOnly>(kind.clone()))
    }

    /// The cache that holds a kind, if anybody asked for it before.
    pub fn find(&self, kind: &Kind) -> Option<Arc<dyn AnyCache>> {
        self.entries.read().get(&id(kind)).map(|entry| entry.cache.clone())
    }

    /// Ends the watch of a kind that is no longer served; its objects are told as gone.
    pub fn remove(&self, kind: &Kind) {
        if let Some(entry) = self.entries.write().remove(&id(kind)) {
            entry.stop.cancel();
            entry.cache.clear();
        }
    }

    pub fn all(&self) -> Vec<Arc<dyn AnyCache>> {
        self.entries.read().values().map(|entry| entry.cache.clone()).collect()
    }

    fn start<K: Cached>(&self, kind: Kind) -> Arc<Cache<K>> {
        let mut entries = self.entries.write();
        let known = entries.get(&id(&kind)).map(|entry| entry.cache.clone());
        if let Some(cache) = known.and_then(|cache| cache.as_any().downcast().ok()) {
            return cache;
        }
        let cache = Arc::new(Cache::<K>::new(kind.clone()));
        let stop = self.source.as_ref().map(|(_, stop)| stop.child_token()).unwrap_or_default();
        entries.insert(id(&kind), Entry { cache: cache.clone(), stop: stop.clone() });
        match &self.source {
            Some((client, _)) => {
                tokio::spawn(reflect(client.clone(), cache.clone(), stop));
            }
            None => cache.replace(Vec::new(), 0),
        }
        cache
    }
}

fn id(kind: &Kind) -> (String, String) {
    (kind.group.to_string(), kind.plural.to_string())
}

impl<K: Cached> AnyCache for Cache<K> {
    fn kind(&self) -> &Kind {
        Cache::kind(self)
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn metadata(&self, key: &Key) -> Option<ObjectMeta> {
        self.get(key).map(|object| object.metadata().clone())
    }

    fn metadata_in(&self, namespace: &str) -> Vec<ObjectMeta> {
        self.in_namespace(namespace).iter().map(|object| object.metadata().clone()).collect()
    }

    fn listen_metadata(&self, listener: MetaListener) {
        let kind = Cache::kind(self).clone();
        self.listen(Box::new(move |old, new| {
            listener(&kind, (old.map(|o| o.metadata()), new.map(|o| o.metadata())));
        }));
    }

    fn offer_json(&self, answer: &[u8]) -> Option<String> {
        let seen = Glance::at(answer).ok()?;
        // The watch may have been faster than the answer.
        if !self.has_reached(seen.revision()) {
            self.offer(seen.read().ok()?);
        }
        Some(seen.name().to_owned()).filter(|name| !name.is_empty())
    }

    fn is_meta_only(&self) -> bool {
        K::META_ONLY
    }

    fn replace_json(&self, objects: &[Box<RawValue>], revision: u64) {
        let told = |error: &serde_json::Error| {
            tracing::warn!(kind = %Cache::kind(self), %error, "the list has something that is none");
        };
        let read = |object: &RawValue| Glance::at(object.get().as_bytes())?.read();
        let read = objects.iter().filter_map(|object| read(object).inspect_err(told).ok());
        self.replace(read.collect(), revision);
    }

    fn apply_json(&self, object: &[u8]) -> serde_json::Result<String> {
        let seen = Glance::at(object)?;
        if self.knows(&seen.key(), seen.revision()) {
            Cache::advance(self, seen.revision());
        } else {
            self.apply(seen.read()?);
        }
        Ok(seen.version().to_owned())
    }

    fn remove_json(&self, object: &[u8]) -> serde_json::Result<String> {
        let seen = Glance::at(object)?;
        self.remove(&seen.read()?);
        Ok(seen.version().to_owned())
    }

    fn revision(&self) -> u64 {
        Cache::revision(self)
    }

    fn advance(&self, revision: u64) {
        Cache::advance(self, revision);
    }

    fn forget(&self, key: &Key, uid: &str) {
        Cache::forget(self, key, uid);
    }

    fn clear(&self) {
        self.replace(Vec::new(), u64::MAX);
    }

    fn wait_synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(Cache::wait_synced(self))
    }

    fn is_synced(&self) -> bool {
        Cache::is_synced(self)
    }
}
