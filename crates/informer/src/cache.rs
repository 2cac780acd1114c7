//! The objects of one kind as last seen, indexed by namespace and by owner.
//!
//! Two sources feed a cache: its watch, and the answers to our own writes. Resource versions tell which is
//! newer, so both may arrive in any order:
//! - an answer at or below the revision that the watch has reached is old news and ignored (the object may
//!   already be deleted again);
//! - a watch event older than what the cache holds is ignored;
//! - an object whose deletion was answered stays gone, whatever the watch still has to tell about it.
//!
//! A list is the truth up to its revision: what a cache holds from before it gives way, also when the store was taken back
//! to an older state. Only our own writes can be newer.
//!
//! Listeners are called in the order of the changes, outside the lock that readers take. A cache never
//! talks to the API.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use crate::key::controller_of;
use crate::{Change, Changes, Key, Kind, ListOptions, Object};

/// What a cache can hold: whole objects, or their metadata only.
pub trait Cached: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Ask the API for metadata only.
    const META_ONLY: bool;
    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
}

impl<K: Object> Cached for K {
    const META_ONLY: bool = false;

    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.meta_mut()
    }
}

/// The metadata of an object whose kind is only known at run time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MetaOnly {
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Cached for MetaOnly {
    const META_ONLY: bool = true;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Called with the old and the new state of an object that changed.
pub type Listener<K> = Box<dyn Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync>;

pub struct Cache<K> {
    kind: Kind,
    options: ListOptions,
    state: RwLock<State<K>>,
    /// Held while a change is made and told, so that listeners hear changes in order.
    listeners: Mutex<Listeners<K>>,
    synced: watch::Sender<bool>,
    /// Counts changes, for those who want to know only that there was one.
    generation: watch::Sender<u64>,
}

struct Listeners<K> {
    functions: Vec<Listener<K>>,
    subscribers: Vec<mpsc::UnboundedSender<Change<K>>>,
}

struct State<K> {
    /// How far the watch has come.
    revision: u64,
    objects: BTreeMap<Key, Arc<K>>,
    by_controller: HashMap<String, BTreeSet<Key>>,
    /// Objects without a controller.
    orphans: BTreeSet<Key>,
    /// UIDs whose deletion was answered but not yet shown by the watch.
    gone: HashSet<String>,
    /// It began with what a former run knew.
    is_checkpointed: bool,
    /// The server has no such kind.
    is_absent: bool,
}

impl<K: Cached> Cache<K> {
    pub fn new(kind: Kind) -> Self {
        Cache::with_options(kind, ListOptions::default())
    }

    /// Of some objects of a kind only.
    pub fn with_options(kind: Kind, options: ListOptions) -> Self {
        Cache {
            kind,
            options,
            state: RwLock::new(State {
                revision: 0,
                objects: BTreeMap::new(),
                by_controller: HashMap::new(),
                orphans: BTreeSet::new(),
                gone: HashSet::new(),
                is_checkpointed: false,
                is_absent: false,
            }),
            listeners: Mutex::new(Listeners { functions: Vec::new(), subscribers: Vec::new() }),
            synced: watch::Sender::new(false),
            generation: watch::Sender::new(0),
        }
    }

    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Which objects it is of.
    pub fn options(&self) -> &ListOptions {
        &self.options
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.state.read().objects.get(key).cloned()
    }

    /// All objects, in the order of their keys.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.state.read().objects.values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let state = self.state.read();
        let first = Key::new(namespace, "");
        state
            .objects
            .range(first..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Objects that a controller reference ties to the owner with this UID.
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        let state = self.state.read();
        let keys = state.by_controller.get(uid);
        keys.into_iter().flatten().filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// Objects of a namespace that no controller owns.
    pub fn orphans_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let state = self.state.read();
        state
            .orphans
            .range(Key::new(namespace, "")..)
            .take_while(|key| key.namespace == namespace)
            .filter_map(|key| state.objects.get(key).cloned())
            .collect()
    }

    /// Tells `listener` every object held now as new, and every later change.
    pub fn listen(&self, listener: Listener<K>) {
        let mut listeners = self.listeners.lock();
        for object in self.list() {
            listener(None, Some(&object));
        }
        listeners.functions.push(listener);
    }

    /// Every object held now as new, and every later change, as long as somebody takes them.
    ///
    /// What waits has no bound of its own: to wait for one subscriber would hold up all others, and to leave changes out
    /// would leave it blind. It is bounded by what happens while the subscriber works on one change, so subscribers do
    /// nothing between two of them but what ends by itself. Objects are shared with the cache; only versions that the cache
    /// has replaced are kept for it alone.
    pub fn subscribe(&self) -> Changes<K> {
        let mut listeners = self.listeners.lock();
        let (sender, receiver) = mpsc::unbounded_channel();
        let state = self.state.read();
        let held = state.objects.values().map(|new| Change::Applied { old: None, new: new.clone() });
        let synced = self.is_synced().then_some(Change::Synced);
        let absent = state.is_absent.then_some(Change::Absent);
        held.chain(synced).chain(absent).for_each(|change| drop(sender.send(change)));
        listeners.subscribers.push(sender);
        Changes::new(receiver)
    }

    /// Another number after each change.
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Waits until the first list is in.
    pub async fn wait_synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Whether it began with what a former run knew.
    pub fn is_checkpointed(&self) -> bool {
        self.state.read().is_checkpointed
    }

    /// Whether the server has said that it has no such kind.
    pub fn is_absent(&self) -> bool {
        self.state.read().is_absent
    }

    /// What a former run knew, until the first list is complete.
    pub fn remember(&self, objects: Vec<K>, revision: u64) {
        let mut listeners = self.listeners.lock();
        let changes: Vec<_> = {
            let mut state = self.state.write();
            (state.revision, state.is_checkpointed) = (revision, true);
            objects.into_iter().filter_map(|object| state.put(object)).collect()
        };
        self.tell(&mut listeners, &changes);
    }

    /// A complete list at `revision`: what it lacks is gone, unless our own writes are newer.
    pub fn replace(&self, objects: Vec<K>, revision: u64) {
        let mut listeners = self.listeners.lock();
        let mut changes = Vec::new();
        {
            let mut state = self.state.write();
            // The store was taken back to an older state: nothing that was seen counts any more.
            let is_rolled_back = revision != 0 && revision < state.revision;
            if is_rolled_back {
                state.gone.clear();
            }
            let listed: HashSet<Key> = objects.iter().map(|o| Key::of_meta(o.metadata())).collect();
            let is_newer = |known: u64| known > revision && !is_rolled_back;
            let missing: Vec<Key> = state
                .objects
                .iter()
                .filter(|(key, object)| !listed.contains(*key) && !is_newer(version(object.metadata())))
                .map(|(key, _)| key.clone())
                .collect();
            changes.extend(missing.iter().map(|key| (state.take(key), None)));
            for object in objects {
                let meta = object.metadata();
                let is_gone = meta.uid.as_ref().is_some_and(|uid| state.gone.contains(uid));
                if !is_gone {
                    let is_known = |known, new| is_newer(known) || known == new && !is_rolled_back;
                    changes.extend(state.put_unless(object, is_known));
                }
            }
            state.gone.clear();
            state.is_absent = false;
            state.revision = if is_rolled_back { revision } else { state.revision.max(revision) };
        }
        self.tell(&mut listeners, &changes);
        self.synced.send_replace(true);
        listeners.send(&Change::Synced);
    }

    /// The server has no such kind.
    pub(crate) fn set_absent(&self) {
        let mut listeners = self.listeners.lock();
        if !std::mem::replace(&mut self.state.write().is_absent, true) {
            listeners.send(&Change::Absent);
        }
    }

    /// Whether the watch has shown everything up to this revision. Nothing is told of a revision 0.
    pub(crate) fn has_reached(&self, revision: u64) -> bool {
        revision != 0 && revision <= self.state.read().revision
    }

    /// Whether this version of an object, or a newer one, is held already: to show it would change nothing.
    pub(crate) fn knows(&self, key: &Key, revision: u64) -> bool {
        let state = self.state.read();
        revision != 0 && state.objects.get(key).is_some_and(|held| version(held.metadata()) >= revision)
    }

    /// The watch shows an object.
    pub fn apply(&self, object: K) {
        let mut listeners = self.listeners.lock();
        let change = {
            let mut state = self.state.write();
            state.revision = state.revision.max(version(object.metadata()));
            let uid = object.metadata().uid.as_ref();
            if uid.is_some_and(|uid| state.gone.contains(uid)) { None } else { state.put(object) }
        };
        self.tell(&mut listeners, change.as_slice());
    }

    /// The watch shows that an object is gone.
    pub fn remove(&self, object: &K) {
        let mut listeners = self.listeners.lock();
        let meta = object.metadata();
        let change = {
            let mut state = self.state.write();
            state.revision = state.revision.max(version(meta));
            if let Some(uid) = &meta.uid {
                state.gone.remove(uid);
            }
            state.take_uid(&Key::of_meta(meta), meta.uid.as_deref()).map(|old| (Some(old), None))
        };
        self.tell(&mut listeners, change.as_slice());
    }

    /// How far the watch has come: every change up to this version is in.
    pub fn revision(&self) -> u64 {
        self.state.read().revision
    }

    /// The watch has come this far (a bookmark).
    pub fn advance(&self, revision: u64) {
        let mut state = self.state.write();
        state.revision = state.revision.max(revision);
    }

    /// Our own write was answered with this object.
    pub fn offer(&self, object: K) {
        let mut listeners = self.listeners.lock();
        let change = {
            let mut state = self.state.write();
            let is_gone = object.metadata().uid.as_ref().is_some_and(|uid| state.gone.contains(uid));
            let is_old = version(object.metadata()) <= state.revision;
            if is_gone || is_old { None } else { state.put(object) }
        };
        self.tell(&mut listeners, change.as_slice());
    }

    /// Our own delete was answered: the object is gone.
    pub fn forget(&self, key: &Key, uid: &str) {
        let mut listeners = self.listeners.lock();
        let change = {
            let mut state = self.state.write();
            let old = state.take_uid(key, Some(uid));
            if old.is_some() {
                state.gone.insert(uid.to_owned());
            }
            old.map(|old| (Some(old), None))
        };
        self.tell(&mut listeners, change.as_slice());
    }

    fn tell(&self, listeners: &mut Listeners<K>, changes: &[OldNew<K>]) {
        for (old, new) in changes {
            listeners.functions.iter().for_each(|listener| listener(old.as_ref(), new.as_ref()));
            match (old, new) {
                (old, Some(new)) => listeners.send(&Change::Applied { old: old.clone(), new: new.clone() }),
                (Some(old), None) => listeners.send(&Change::Removed(old.clone())),
                (None, None) => {}
            }
            self.generation.send_modify(|generation| *generation += 1);
        }
    }
}

/// What was held, and what is held now.
type OldNew<K> = (Option<Arc<K>>, Option<Arc<K>>);

impl<K: Cached> Listeners<K> {
    fn send(&mut self, change: &Change<K>) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

impl<K: Cached> State<K> {
    /// Stores the object if it is newer than what is there.
    fn put(&mut self, object: K) -> Option<OldNew<K>> {
        self.put_unless(object, |known, new| new <= known)
    }

    /// Stores the object unless what is there (its version, and that of the object) is to stay.
    fn put_unless(&mut self, mut object: K, stays: impl Fn(u64, u64) -> bool) -> Option<OldNew<K>> {
        let meta = object.metadata_mut();
        meta.managed_fields = None;
        let key = Key::of_meta(meta);
        let new_version = version(meta);
        let old = self.objects.get(&key).cloned();
        if let Some(old) = &old {
            if new_version != 0 && stays(version(old.metadata()), new_version) {
                return None;
            }
            self.unindex(&key, old.metadata());
        }
        match controller_of(object.metadata()) {
            Some(owner) => {
                self.by_controller.entry(owner.uid.clone()).or_default().insert(key.clone());
            }
            None => {
                self.orphans.insert(key.clone());
            }
        }
        let object = Arc::new(object);
        self.objects.insert(key, object.clone());
        Some((old, Some(object)))
    }

    fn take_uid(&mut self, key: &Key, uid: Option<&str>) -> Option<Arc<K>> {
        let held = self.objects.get(key)?;
        // The same name may already belong to a new object.
        if uid.is_some() && held.metadata().uid.as_deref() != uid {
            return None;
        }
        self.take(key)
    }

    fn take(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        self.unindex(key, old.metadata());
        Some(old)
    }

    fn unindex(&mut self, key: &Key, meta: &ObjectMeta) {
        let Some(owner) = controller_of(meta) else {
            self.orphans.remove(key);
            return;
        };
        if let Some(keys) = self.by_controller.get_mut(&owner.uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_controller.remove(&owner.uid);
            }
        }
    }
}

/// Resource versions are ordered numbers. Anything else counts as the oldest.
fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
