//! Objects in memory with the rules of the API that controllers depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::{Action, Cache, Caches, Key, Kind, Object, Propagation, Target};

pub struct World {
    now: Arc<Mutex<Timestamp>>,
    caches: Arc<Caches>,
    objects: BTreeMap<(Kind, Key), Value>,
    revision: u64,
    /// Every action that was carried out, as `create pods ns/name`.
    pub log: Vec<String>,
}

/// Why the world would not do it, by the reason the API gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    AlreadyExists,
    Conflict,
    NotFound,
    Remaining,
}

impl Default for World {
    fn default() -> Self {
        World {
            now: Arc::new(Mutex::new(Timestamp::from_second(1_900_000_000).expect("in range"))),
            caches: Caches::detached(),
            objects: BTreeMap::new(),
            revision: 0,
            log: Vec::new(),
        }
    }
}

impl World {
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// Puts an object there as a user would, keeping the status it has.
    pub fn insert<K: Object>(&mut self, object: &K) -> K {
        let value = serde_json::to_value(object).expect("serialises");
        let kind = Kind::of::<K>();
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let key = self.create(&kind, &namespace, value, true).expect("inserted object is new");
        self.get::<K>(&key).expect("just inserted")
    }

    /// The same objects in a world of its own.
    pub fn copy(&self) -> World {
        World {
            now: Arc::new(Mutex::new(self.now())),
            caches: Caches::detached(),
            objects: self.objects.clone(),
            revision: self.revision,
            log: Vec::new(),
        }
    }

    /// Fills caches that were made after their objects.
    pub(super) fn refill(&self) {
        for ((kind, _), object) in &self.objects {
            self.caches
                .of_kind(kind)
                .apply_json(object.to_string().as_bytes(), None)
                .expect("an object of its kind");
        }
    }

    pub fn get<K: Object>(&self, key: &Key) -> Option<K> {
        self.cache::<K>().get(key).map(|object| (*object).clone())
    }

    pub fn list<K: Object>(&self) -> Vec<K> {
        self.cache::<K>().list().iter().map(|object| (**object).clone()).collect()
    }

    /// The typed cache of a kind, filled.
    pub fn cache<K: Object>(&self) -> Arc<Cache<K>> {
        let kind = Kind::of::<K>();
        let known = self.caches.find(&kind).and_then(|cache| cache.as_any().downcast::<Cache<K>>().ok());
        known.unwrap_or_else(|| {
            let cache = self.caches.of::<K>();
            self.refill();
            cache
        })
    }

    /// Changes an object as somebody else would (a user, the kubelet).
    pub fn change<K: Object>(&mut self, key: &Key, change: impl FnOnce(&mut K)) {
        let Some(mut object) = self.get::<K>(key) else { return };
        change(&mut object);
        let value = serde_json::to_value(&object).expect("serialises");
        self.store(Kind::of::<K>(), key.clone(), value);
    }

    pub fn delete<K: Object>(&mut self, key: &Key) {
        let target = Target { kind: Kind::of::<K>(), key: key.clone(), uid: None, resource_version: None };
        let _ = self.remove(&target, None, None);
    }

    /// Ends an object at once, as the kubelet does when the containers are gone.
    pub fn erase<K: Object>(&mut self, key: &Key) {
        self.drop_object(&Kind::of::<K>(), key);
    }

    pub fn now(&self) -> Timestamp {
        *self.now.lock()
    }

    /// The world's time for those who carry a clock.
    pub fn clock(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let now = self.now.clone();
        Arc::new(move || *now.lock())
    }

    /// Moves the clock; it never goes back.
    pub fn advance_to(&mut self, then: Timestamp) {
        let mut now = self.now.lock();
        *now = then.max(*now);
    }

    /// Carries out one action.
    pub fn apply(&mut self, action: &Action) -> Result<(), Refused> {
        let (kind, key) = action.subject();
        let (kind, mut key) = (kind.clone(), key);
        let verb = match action {
            Action::Create { namespace, object, .. } => {
                key = self.create(&kind, namespace, object.clone(), false)?;
                "create".to_owned()
            }
            Action::Update { target, subresource, object } => {
                self.update(target, *subresource, object)?;
                subresource.map_or("update".to_owned(), |s| format!("update {s} of"))
            }
            Action::Patch { target, patch, .. } => {
                let mut object = self.guarded(target)?.clone();
                merge(&mut object, patch);
                self.store(kind.clone(), key.clone(), object);
                "patch".to_owned()
            }
            Action::Post { target, subresource, .. } => {
                self.guarded(target)?;
                if *subresource == "eviction" {
                    self.remove(target, None, None)?;
                }
                format!("post {subresource} of")
            }
            Action::Delete { target, propagation, grace_seconds, .. } => {
                match self.remove(target, *propagation, *grace_seconds) {
                    Ok(()) | Err(Refused::NotFound) => {}
                    Err(other) => return Err(other),
                }
                "delete".to_owned()
            }
            Action::DeleteCollection { namespace, .. } => {
                for target in self.targets_in(&kind, namespace) {
                    self.remove(&target, None, None)?;
                }
                "delete all".to_owned()
            }
            Action::RequireNone { namespace, .. } => {
                let any = !self.targets_in(&kind, namespace).is_empty();
                return if any { Err(Refused::Remaining) } else { Ok(()) };
            }
            Action::RequireAbsent { target } => {
                return if self.guarded(target).is_ok() { Err(Refused::Remaining) } else { Ok(()) };
            }
        };
        self.log.push(format!("{verb} {kind} {key}"));
        Ok(())
    }

    fn targets_in(&self, kind: &Kind, namespace: &str) -> Vec<Target> {
        let keys = self.objects.keys().filter(|(k, key)| k == kind && key.namespace == namespace);
        let target =
            |key: &Key| Target { kind: kind.clone(), key: key.clone(), uid: None, resource_version: None };
        keys.map(|(_, key)| target(key)).collect()
    }

    fn create(
        &mut self,
        kind: &Kind,
        namespace: &str,
        mut object: Value,
        keep_status: bool,
    ) -> Result<Key, Refused> {
        let id = self.revision + 1;
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let meta = &mut object["metadata"];
        if meta["name"].as_str().unwrap_or("").is_empty() {
            meta["name"] = json!(format!("{}{id:05}", meta["generateName"].as_str().unwrap_or("")));
        }
        let key = Key::new(namespace, meta["name"].as_str().unwrap_or(""));
        if self.objects.contains_key(&(kind.clone(), key.clone())) {
            return Err(Refused::AlreadyExists);
        }
        if kind.namespaced {
            meta["namespace"] = json!(namespace);
        }
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{id}"));
        }
        if meta["creationTimestamp"].is_null() {
            meta["creationTimestamp"] = json!(self.now().to_string());
        }
        meta["generation"] = json!(1);
        if !keep_status && let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        self.store(kind.clone(), key.clone(), object);
        Ok(key)
    }

    fn update(&mut self, target: &Target, subresource: Option<&str>, new: &Value) -> Result<(), Refused> {
        let old = self.guarded(target)?.clone();
        let version = &new["metadata"]["resourceVersion"];
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return Err(Refused::Conflict);
        }
        let (mut stored, status_from) = match subresource {
            Some("status") => (old.clone(), new),
            // A namespace goes with the last finalizer of its spec.
            Some("finalize") if new["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty) => {
                self.drop_object(&target.kind, &target.key);
                return Ok(());
            }
            _ => (new.clone(), &old),
        };
        match status_from.get("status") {
            Some(status) => stored["status"] = status.clone(),
            None => {
                stored.as_object_mut().map(|fields| fields.remove("status"));
            }
        }
        self.store(target.kind.clone(), target.key.clone(), stored);
        Ok(())
    }

    fn guarded(&self, target: &Target) -> Result<&Value, Refused> {
        let held = self.objects.get(&(target.kind.clone(), target.key.clone())).ok_or(Refused::NotFound)?;
        let differs = |field: &str, wanted: &Option<String>| {
            wanted.as_deref().is_some_and(|wanted| held["metadata"][field].as_str() != Some(wanted))
        };
        let stale = differs("uid", &target.uid) || differs("resourceVersion", &target.resource_version);
        if stale { Err(Refused::Conflict) } else { Ok(held) }
    }

    fn remove(
        &mut self,
        target: &Target,
        propagation: Option<Propagation>,
        grace: Option<i64>,
    ) -> Result<(), Refused> {
        let mut object = self.guarded(target)?.clone();
        let meta = &mut object["metadata"];
        let finalizer = match propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            _ => None,
        };
        if let Some(finalizer) = finalizer {
            let mut list = meta["finalizers"].as_array().cloned().unwrap_or_default();
            if !list.contains(&json!(finalizer)) {
                list.push(json!(finalizer));
            }
            meta["finalizers"] = json!(list);
        }
        // A pod on a node goes when its kubelet says so.
        let is_running = target.kind == Kind::of::<k8s_openapi::api::core::v1::Pod>()
            && object["spec"]["nodeName"].is_string()
            && !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let grace = if is_running { grace.unwrap_or(30) } else { 0 };
        let meta = &mut object["metadata"];
        if grace == 0 && !has_finalizers(meta) {
            self.drop_object(&target.kind, &target.key);
            return Ok(());
        }
        if meta["deletionTimestamp"].is_null() {
            meta["deletionTimestamp"] = json!(self.now().to_string());
            meta["deletionGracePeriodSeconds"] = json!(grace);
        }
        self.store(target.kind.clone(), target.key.clone(), object);
        Ok(())
    }

    /// Stores with a new version; drops it instead if the last finalizer of a deleted object is gone.
    fn store(&mut self, kind: Kind, key: Key, mut object: Value) {
        let old = self.objects.get(&(kind.clone(), key.clone()));
        prune_empty(&mut object["metadata"]);
        if old.is_some_and(|old| *old == object) {
            return;
        }
        if old.is_some_and(|old| old.get("spec") != object.get("spec")) {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object["metadata"]["generation"] = json!(generation);
        }
        let meta = &object["metadata"];
        let grace = meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if !meta["deletionTimestamp"].is_null() && grace == 0 && !has_finalizers(meta) {
            self.drop_object(&kind, &key);
            return;
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.caches
            .of_kind(&kind)
            .apply_json(object.to_string().as_bytes(), None)
            .expect("an object of its kind");
        self.objects.insert((kind, key), object);
    }

    fn drop_object(&mut self, kind: &Kind, key: &Key) {
        let Some(mut object) = self.objects.remove(&(kind.clone(), key.clone())) else { return };
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.caches.of_kind(kind).remove_json(object.to_string().as_bytes()).expect("an object of its kind");
    }
}

fn has_finalizers(meta: &Value) -> bool {
    meta["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

fn prune_empty(meta: &mut Value) {
    if let Some(fields) = meta.as_object_mut() {
        fields.retain(|_, value| !value.is_null() && *value != json!([]) && *value != json!({}));
    }
}

/// JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (field, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|fields| fields.remove(field));
        } else {
            merge(&mut target[field.as_str()], value);
        }
    }
}
