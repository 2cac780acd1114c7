//! The objects of one kind as the API server last told them.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// Fed with the events of a watch. Ordered by namespace and name, so that what is computed from it does not
/// depend on the order of events.
#[derive(Debug)]
pub struct Objects<K> {
    known: BTreeMap<(String, String), Arc<K>>,
    /// What a new list has shown so far: it replaces the known objects when it is complete.
    listing: BTreeMap<(String, String), Arc<K>>,
    complete: bool,
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Objects { known: BTreeMap::new(), listing: BTreeMap::new(), complete: false }
    }
}

impl<K: ResourceExt> Objects<K> {
    /// What a former run knew, until the first list is complete.
    pub fn remembering(objects: &[Arc<K>]) -> Self {
        let known = objects.iter().map(|object| (key(&**object), object.clone())).collect();
        Objects { known, ..Objects::default() }
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.known.values().cloned().collect()
    }

    /// Whether it changed what [`Objects::iter`] shows.
    pub fn take(&mut self, event: Event<K>) -> bool {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => drop(self.listing.insert(key(&object), slim(object))),
            Event::InitDone => {
                self.known = mem::take(&mut self.listing);
                self.complete = true;
                return true;
            }
            Event::Apply(object) => {
                self.known.insert(key(&object), slim(object));
                return true;
            }
            Event::Delete(object) => return self.known.remove(&key(&object)).is_some(),
        }
        false
    }

    /// Whether all objects were seen once.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    pub fn get(&self, key: &(String, String)) -> Option<&K> {
        self.known.get(key).map(AsRef::as_ref)
    }

    pub fn keys(&self) -> impl Iterator<Item = &(String, String)> {
        self.known.keys()
    }

    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.known.values().map(AsRef::as_ref)
    }
}

pub fn key<K: ResourceExt>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn slim<K: ResourceExt>(mut object: K) -> Arc<K> {
    object.managed_fields_mut().clear();
    Arc::new(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Service;
    use kube::api::ObjectMeta;

    fn service(name: &str) -> Service {
        Service {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Service::default()
        }
    }

    fn names(objects: &Objects<Service>) -> Vec<String> {
        objects.iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn a_new_list_replaces_the_objects_only_when_it_is_complete() {
        let mut objects = Objects::default();
        for (event, changes, seen) in [
            (Event::Init, false, &[][..]),
            (Event::InitApply(service("b")), false, &[]),
            (Event::InitApply(service("a")), false, &[]),
            (Event::InitDone, true, &["a", "b"]),
            (Event::Delete(service("a")), true, &["b"]),
            (Event::Delete(service("a")), false, &["b"]),
            (Event::Apply(service("c")), true, &["b", "c"]),
            (Event::Init, false, &["b", "c"]),
            (Event::InitApply(service("d")), false, &["b", "c"]),
            (Event::InitDone, true, &["d"]),
        ] {
            let what = format!("{event:?}");
            assert_eq!(objects.take(event), changes, "{what}");
            assert_eq!(names(&objects), seen, "{what}");
        }
    }
}
