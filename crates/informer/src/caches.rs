//! All caches of a process: one per kind, made when somebody first asks for it.
//!
//! Those of a control plane ([`Caches::of`]) live as long as the process; those of an agent ([`Caches::informer`]) as long
//! as somebody holds them, and may be of some objects of a kind only.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::object_header::ObjectHeader;
use crate::reflect::{Page, keep_reflecting};
use crate::unreadable::Unreadable;
use crate::{Cache, Cached, Checkpoint, Decoded, Key, Kind, MetaOnly, Object, Recorder};

/// What a listener that cares for metadata only gets to see: old and new.
pub type MetaChange<'a> = (Option<&'a ObjectMeta>, Option<&'a ObjectMeta>);

type MetaListener = Box<dyn Fn(&Kind, MetaChange<'_>) + Send + Sync>;

/// Which objects of a kind to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ListOptions {
    /// Empty: all.
    pub namespace: String,
    /// As the API takes it, such as `spec.nodeName=a`; empty: all.
    pub field_selector: String,
}

impl ListOptions {
    pub fn fields(selector: impl Into<String>) -> Self {
        ListOptions { field_selector: selector.into(), ..ListOptions::default() }
    }

    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        ListOptions { namespace: namespace.to_owned(), ..self }
    }
}

type Id = (String, String);

pub struct Caches {
    entries: RwLock<HashMap<Id, Entry>>,
    informers: Mutex<HashMap<(Id, ListOptions), Weak<dyn Any + Send + Sync>>>,
    /// Kinds that are kept for the next run, and where.
    checkpoints: HashMap<Id, Checkpoint>,
    /// None in tests, where the test feeds the caches.
    source: Option<Source>,
}

/// A cache that is kept current as long as somebody holds it.
pub struct Informer<K> {
    cache: Arc<Cache<K>>,
    _end: DropGuard,
}

impl<K> Deref for Informer<K> {
    type Target = Cache<K>;

    fn deref(&self) -> &Cache<K> {
        &self.cache
    }
}

struct Source {
    client: Client,
    recorder: Recorder,
    stop: CancellationToken,
    unreadable: Arc<Unreadable>,
}

struct Entry {
    cache: Arc<dyn AnyCache>,
    /// Ends its watch.
    stop: CancellationToken,
}

/// A cache without its type.
pub trait AnyCache: Send + Sync {
    fn kind(&self) -> &Kind;
    fn options(&self) -> &ListOptions;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn metadata(&self, key: &Key) -> Option<ObjectMeta>;
    fn metadata_in(&self, namespace: &str) -> Vec<ObjectMeta>;
    fn listen_metadata(&self, listener: MetaListener);
    /// Shows the answer to our own write; gives the object's name, or None if it is not such an object.
    fn offer_json(&self, answer: &[u8]) -> Option<String>;
    fn is_meta_only(&self) -> bool;
    /// A complete list at `revision`.
    fn replace_json(&self, objects: &[Box<RawValue>], revision: u64, unreadable: Option<&Unreadable>);
    /// The watch shows an object; gives its version.
    fn apply_json(&self, object: &[u8], unreadable: Option<&Unreadable>) -> serde_json::Result<String>;
    /// The watch shows that an object is gone; gives the version of its deletion.
    fn remove_json(&self, object: &[u8]) -> serde_json::Result<String>;
    /// How far the watch has come: every change up to this version is in.
    fn revision(&self) -> u64;
    /// The watch has come this far.
    fn advance(&self, revision: u64);
    /// The server has no such kind.
    fn set_absent(&self);
    /// All objects as a list, for the next run.
    fn to_checkpoint(&self) -> serde_json::Result<Vec<u8>>;
    /// Begins with what a former run has left; an object that cannot be read is left out.
    fn remember_json(&self, checkpoint: &[u8]) -> serde_json::Result<()>;
    fn forget(&self, key: &Key, uid: &str);
    /// Nothing of this kind exists any more.
    fn clear(&self);
    fn wait_synced(&self) -> BoxFuture<'_, ()>;
    fn is_synced(&self) -> bool;
}

impl Caches {
    /// Caches that watch through `client` until `stop`.
    pub fn new(client: Client, stop: CancellationToken) -> Arc<Self> {
        let recorder = Recorder::start(client.clone());
        let unreadable = Arc::new(Unreadable::new(Some(recorder.clone())));
        Caches::with(Some(Source { client, recorder, stop, unreadable }), HashMap::new())
    }

    /// Those of an agent: many see the same objects, so it writes no events about them. Kinds of which the next run is to
    /// know when no server answers are kept below `dir`.
    pub fn of_agent(
        client: Client,
        recorder: Recorder,
        stop: CancellationToken,
        dir: &Path,
        kinds: &[Kind],
    ) -> Arc<Self> {
        let unreadable = Arc::new(Unreadable::new(None));
        let kept = kinds.iter().map(|kind| (id(kind), Checkpoint::of(dir, kind)));
        Caches::with(Some(Source { client, recorder, stop, unreadable }), kept.collect())
    }

    /// Caches that only change when somebody calls their methods.
    pub fn detached() -> Arc<Self> {
        Caches::with(None, HashMap::new())
    }

    fn with(source: Option<Source>, checkpoints: HashMap<Id, Checkpoint>) -> Arc<Self> {
        Arc::new(Caches { entries: RwLock::default(), informers: Mutex::default(), checkpoints, source })
    }

    /// The recorder of events of whoever shares these caches: there is one in a process.
    pub fn recorder(&self) -> Recorder {
        self.source.as_ref().map_or_else(Recorder::silent, |source| source.recorder.clone())
    }

    /// The objects of a kind, or some of them, for as long as somebody holds this; shared by all who ask for the same.
    pub fn informer<K: Object>(&self, options: ListOptions) -> Arc<Informer<K>> {
        let kind = Kind::of::<K>();
        let name = (id(&kind), options);
        let mut informers = self.informers.lock();
        informers.retain(|_, informer| informer.strong_count() > 0);
        let known = informers.get(&name).and_then(Weak::upgrade);
        if let Some(informer) = known.and_then(|known| known.downcast().ok()) {
            return informer;
        }
        let cache = Arc::new(Cache::<K>::with_options(kind, name.1.clone()));
        let stop = self.source.as_ref().map(|source| source.stop.child_token()).unwrap_or_default();
        let checkpoint = self.checkpoints.get(&name.0).filter(|_| name.1 == ListOptions::default());
        if let Some(checkpoint) = checkpoint {
            checkpoint.keep(cache.clone(), stop.clone());
        }
        self.spawn(cache.clone(), stop.clone());
        let informer = Arc::new(Informer { cache, _end: stop.drop_guard() });
        let held: Arc<dyn Any + Send + Sync> = informer.clone();
        informers.insert(name, Arc::downgrade(&held));
        informer
    }

    /// One that somebody holds already.
    pub fn held<K: Object>(&self, options: &ListOptions) -> Option<Arc<Informer<K>>> {
        let name = (id(&Kind::of::<K>()), options.clone());
        self.informers.lock().get(&name).and_then(Weak::upgrade)?.downcast().ok()
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
        // Not in the condition, which would hold the lock: those who are told look for other caches.
        let removed = self.entries.write().remove(&id(kind));
        if let Some(entry) = removed {
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
        let stop = self.source.as_ref().map(|source| source.stop.child_token()).unwrap_or_default();
        entries.insert(id(&kind), Entry { cache: cache.clone(), stop: stop.clone() });
        self.spawn(cache.clone(), stop);
        cache
    }

    fn spawn<K: Cached>(&self, cache: Arc<Cache<K>>, stop: CancellationToken) {
        match &self.source {
            Some(source) => {
                let (client, unreadable) = (source.client.clone(), source.unreadable.clone());
                tokio::spawn(keep_reflecting(client, cache, unreadable, stop));
            }
            None => cache.replace(Vec::new(), 0),
        }
    }
}

fn id(kind: &Kind) -> Id {
    (kind.group.to_string(), kind.plural.to_string())
}

impl<K: Cached> Cache<K> {
    /// The object as far as it can be read; the rest is reported.
    fn readable(&self, seen: &ObjectHeader<'_>, unreadable: Option<&Unreadable>) -> serde_json::Result<K> {
        let Decoded { object, ignored } = seen.read::<K>()?;
        if let Some(unreadable) = unreadable.filter(|_| !ignored.is_empty()) {
            unreadable.report(Cache::kind(self), object.metadata(), &ignored);
        }
        Ok(object)
    }

    /// One that cannot be read at all is left out.
    fn read_all(&self, objects: &[Box<RawValue>], unreadable: Option<&Unreadable>) -> Vec<K> {
        let told = |error: &serde_json::Error| {
            tracing::warn!(kind = %Cache::kind(self), %error, "ignoring an object that cannot be read");
        };
        let read = |object: &RawValue| self.readable(&ObjectHeader::at(object.get().as_bytes())?, unreadable);
        objects.iter().filter_map(|object| read(object).inspect_err(told).ok()).collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a, K> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Value,
    items: Vec<&'a K>,
}

impl<K: Cached> AnyCache for Cache<K> {
    fn kind(&self) -> &Kind {
        Cache::kind(self)
    }

    fn options(&self) -> &ListOptions {
        Cache::options(self)
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
        let seen = ObjectHeader::at(answer).ok()?;
        // The watch may have been faster than the answer.
        if !self.has_reached(seen.revision()) {
            self.offer(seen.read().ok()?.object);
        }
        Some(seen.name().to_owned()).filter(|name| !name.is_empty())
    }

    fn is_meta_only(&self) -> bool {
        K::META_ONLY
    }

    fn replace_json(&self, objects: &[Box<RawValue>], revision: u64, unreadable: Option<&Unreadable>) {
        self.replace(self.read_all(objects, unreadable), revision);
    }

    fn apply_json(&self, object: &[u8], unreadable: Option<&Unreadable>) -> serde_json::Result<String> {
        let seen = ObjectHeader::at(object)?;
        if self.knows(&seen.key(), seen.revision()) {
            Cache::advance(self, seen.revision());
        } else {
            self.apply(self.readable(&seen, unreadable)?);
        }
        Ok(seen.version().to_owned())
    }

    fn remove_json(&self, object: &[u8]) -> serde_json::Result<String> {
        let seen = ObjectHeader::at(object)?;
        self.remove(&seen.read()?.object);
        Ok(seen.version().to_owned())
    }

    fn revision(&self) -> u64 {
        Cache::revision(self)
    }

    fn advance(&self, revision: u64) {
        Cache::advance(self, revision);
    }

    fn set_absent(&self) {
        Cache::set_absent(self);
    }

    fn to_checkpoint(&self) -> serde_json::Result<Vec<u8>> {
        let metadata = json!({"resourceVersion": Cache::revision(self).to_string()});
        let objects = self.list();
        let items = objects.iter().map(AsRef::as_ref).collect();
        serde_json::to_vec(&List { api_version: "v1", kind: "List", metadata, items })
    }

    fn remember_json(&self, checkpoint: &[u8]) -> serde_json::Result<()> {
        let page: Page = serde_json::from_slice(checkpoint)?;
        self.remember(self.read_all(&page.items, None), page.revision());
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ResourceQuota;

    use super::*;

    #[test]
    fn removed_kind_tells_those_who_look_for_other_caches() {
        let caches = Caches::detached();
        let own = |text: &'static str| text.into();
        let kind = Kind {
            group: own("a.io"),
            version: own("v1"),
            kind: own("A"),
            plural: own("as"),
            namespaced: true,
        };
        let cache = caches.of_kind(&kind);
        let object =
            json!({"metadata": {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "5"}});
        cache.apply_json(object.to_string().as_bytes(), None).unwrap();
        let (told, others) = (mpsc::channel(), Arc::downgrade(&caches));
        cache.listen_metadata(Box::new(move |_, (_, new)| {
            let quotas = others.upgrade().map(|caches| caches.of::<ResourceQuota>().len());
            told.0.send((new.is_none(), quotas)).unwrap();
        }));
        // On a thread of its own: if it waits for itself, the test fails and does not hang.
        std::thread::spawn(move || caches.remove(&kind));
        let next = || told.1.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(next(), (false, Some(0)));
        assert_eq!(next(), (true, Some(0)));
    }
}
