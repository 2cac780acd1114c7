//! Services with their EndpointSlices, and which of them changed since somebody last looked.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use minik8s_informer::Change;

use crate::watches::{Objects, key};

/// Namespace and name.
pub type Key = (String, String);

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// When what made a slice change happened.
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Debug, Default)]
pub struct Backends {
    services: Objects<Service>,
    slices: Objects<EndpointSlice>,
    slices_of: BTreeMap<Key, BTreeSet<Key>>,
    changed: BTreeSet<Key>,
    /// The newest version of an object seen.
    version: u64,
    /// Whether a pod that ends was among the changes.
    sees_end: bool,
    /// When the changes since somebody last asked were made necessary.
    triggers: Vec<Timestamp>,
}

impl Backends {
    /// Whether it is news: what a list shows is not.
    pub fn take_service(&mut self, change: Change<Service>) -> bool {
        self.note_version(&change);
        let mut is_news = false;
        if let Change::Applied { new: service, .. } | Change::Removed(service) = &change {
            self.changed.insert(key(&**service));
            is_news = self.services.is_complete();
        }
        self.services.take(change);
        is_news
    }

    /// Whether it is news: what a list shows is not.
    pub fn take_slice(&mut self, change: Change<EndpointSlice>) -> bool {
        self.note_version(&change);
        let (before, now) = match &change {
            Change::Applied { old, new } => (old.as_deref(), Some(&**new)),
            Change::Removed(old) => (Some(&**old), None),
            Change::Synced | Change::Absent => (None, None),
        };
        let is_news = self.slices.is_complete() && now.or(before).is_some();
        if let Some(slice) = now.filter(|_| is_news) {
            self.sees_end |= endpoints(slice).any(|one| condition(one, |c| c.terminating) == Some(true));
            let known = before.and_then(trigger);
            self.triggers.extend(trigger(slice).filter(|at| known != Some(*at)));
        }
        // It may have been of another Service before.
        if let Some((slice, service)) = before.and_then(|slice| Some((key(slice), service_of(slice)?))) {
            self.slices_of.entry(service.clone()).or_default().remove(&slice);
            self.changed.insert(service);
        }
        if let Some((slice, service)) = now.and_then(|slice| Some((key(slice), service_of(slice)?))) {
            self.slices_of.entry(service.clone()).or_default().insert(slice);
            self.changed.insert(service);
        }
        self.slices.take(change);
        is_news
    }

    /// Whether everything was seen once: half of the objects would take away what a former run of this agent
    /// rightly made.
    pub fn is_complete(&self) -> bool {
        self.services.is_complete() && self.slices.is_complete()
    }

    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// As if every Service had changed.
    pub fn mark_all(&mut self) {
        self.changed.extend(self.services.iter().map(key));
    }

    /// The Services that changed, or whose slices did, since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Key> {
        let changed = std::mem::take(&mut self.changed);
        for service in &changed {
            if self.slices_of.get(service).is_some_and(BTreeSet::is_empty) {
                self.slices_of.remove(service);
            }
        }
        changed
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether pods that end were seen since the last call.
    pub fn take_sees_end(&mut self) -> bool {
        std::mem::take(&mut self.sees_end)
    }

    /// When what changed since the last call was made necessary, as far as slices tell.
    pub fn take_triggers(&mut self) -> Vec<Timestamp> {
        std::mem::take(&mut self.triggers)
    }

    /// Whether any Service leads new connections to the pod.
    pub fn is_ready(&self, pod_uid: &str) -> bool {
        let all = self.slices.iter().flat_map(endpoints);
        all.filter(|one| is_pod(one, pod_uid)).any(|one| condition(one, |c| c.ready) != Some(false))
    }

    /// Whether a Service of the pod has somebody else to lead connections to.
    pub fn has_others(&self, pod_uid: &str) -> bool {
        self.slices_of.keys().any(|service| {
            let all = || self.slices(service).flat_map(endpoints);
            let is_ready = |one: &Endpoint| condition(one, |c| c.ready) != Some(false);
            all().any(|one| is_pod(one, pod_uid)) && all().any(|one| !is_pod(one, pod_uid) && is_ready(one))
        })
    }

    pub fn addresses(&self, pod_uid: &str) -> BTreeSet<String> {
        let of_pod = self.slices.iter().flat_map(endpoints).filter(|one| is_pod(one, pod_uid));
        of_pod.flat_map(|one| one.addresses.iter().cloned()).collect()
    }

    fn note_version<K: ResourceExt>(&mut self, change: &Change<K>) {
        if let Change::Applied { new: object, .. } | Change::Removed(object) = change {
            let version = object.resource_version().and_then(|text| text.parse().ok());
            self.version = self.version.max(version.unwrap_or_default());
        }
    }

    pub fn service(&self, service: &Key) -> Option<&Service> {
        self.services.get(service)
    }

    pub fn slices(&self, service: &Key) -> impl Iterator<Item = &EndpointSlice> + Clone {
        self.slices_of.get(service).into_iter().flatten().filter_map(|slice| self.slices.get(slice))
    }
}

fn endpoints(slice: &EndpointSlice) -> impl Iterator<Item = &Endpoint> {
    slice.endpoints.iter().flatten()
}

fn condition(endpoint: &Endpoint, of: impl Fn(&EndpointConditions) -> Option<bool>) -> Option<bool> {
    endpoint.conditions.as_ref().and_then(of)
}

fn is_pod(endpoint: &Endpoint, uid: &str) -> bool {
    endpoint.target_ref.as_ref().and_then(|pod| pod.uid.as_deref()) == Some(uid)
}

fn trigger(slice: &EndpointSlice) -> Option<Timestamp> {
    slice.metadata.annotations.as_ref()?.get(TRIGGER)?.parse().ok()
}

fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some((slice.metadata.namespace.clone().unwrap_or_default(), name.clone()))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use minik8s_informer::{Cache, Changes, Kind, Object};
    use serde_json::json;

    use super::*;

    fn slice(name: &str, service: &str) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "labels": {SERVICE_NAME: service}},
            "addressType": "IPv4", "endpoints": [],
        }))
        .unwrap()
    }

    fn service(name: &str) -> Service {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}})).unwrap()
    }

    /// A cache, and what is taken of it.
    fn follow<K: Object>() -> (Cache<K>, Changes<K>) {
        let cache = Cache::new(Kind::of::<K>());
        let changes = cache.subscribe();
        (cache, changes)
    }

    fn take(backends: &mut Backends, services: &mut Changes<Service>, slices: &mut Changes<EndpointSlice>) {
        while let Some(change) = services.next().now_or_never() {
            backends.take_service(change);
        }
        while let Some(change) = slices.next().now_or_never() {
            backends.take_slice(change);
        }
    }

    #[test]
    fn slice_trigger_is_told_once() {
        let mut backends = Backends::default();
        let (cache, mut changes) = follow::<EndpointSlice>();
        cache.replace(Vec::new(), 1);
        let (_, mut none) = follow::<Service>();
        for (at, expected) in [
            ("2026-01-01T00:00:01Z", 1),
            ("2026-01-01T00:00:01Z", 0),
            ("2026-01-01T00:00:02.5Z", 1),
            ("nonsense", 0),
        ] {
            let mut slice = slice("a", "a");
            slice.metadata.annotations = Some([(TRIGGER.to_owned(), at.to_owned())].into());
            cache.apply(slice);
            take(&mut backends, &mut none, &mut changes);
            assert_eq!(backends.take_triggers().len(), expected, "{at}");
        }
    }

    #[test]
    fn others_are_ready_endpoints_of_the_same_service() {
        let mut backends = Backends::default();
        let (_, mut none) = follow::<Service>();
        let (slices, mut changes) = follow::<EndpointSlice>();
        let endpoint = |uid: &str, ready: bool| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "uid": uid}});
        let slice = |name: &str, endpoints: serde_json::Value| {
            let mut slice = slice(name, name);
            slice.endpoints = serde_json::from_value(endpoints).unwrap();
            slice
        };
        let one = slice("one", json!([endpoint("a", false), endpoint("b", true)]));
        let two = slice("two", json!([endpoint("c", false), endpoint("d", false)]));
        slices.replace(vec![one, two], 1);
        take(&mut backends, &mut none, &mut changes);
        let found = ["a", "b", "c", "x"].map(|pod| backends.has_others(pod));
        assert_eq!(found, [true, false, false, false]);
    }

    #[test]
    fn only_services_that_changed_are_named() {
        let mut backends = Backends::default();
        let changed = |backends: &mut Backends| -> Vec<String> {
            backends.take_changed().into_iter().map(|(_, name)| name).collect()
        };
        let count = |backends: &Backends, name: &str| backends.slices(&("ns".into(), name.into())).count();
        let (services, mut service_changes) = follow::<Service>();
        let (slices, mut slice_changes) = follow::<EndpointSlice>();
        let all = |names: &[&str]| names.iter().map(|name| slice(name, name)).collect::<Vec<_>>();
        services.replace(vec![service("a"), service("b")], 1);
        take(&mut backends, &mut service_changes, &mut slice_changes);
        assert!(!backends.is_complete());
        slices.replace(all(&["a", "b"]), 1);
        take(&mut backends, &mut service_changes, &mut slice_changes);
        assert!(backends.is_complete());
        assert_eq!(changed(&mut backends), ["a", "b"]);
        slices.apply(slice("a2", "a"));
        take(&mut backends, &mut service_changes, &mut slice_changes);
        assert_eq!((changed(&mut backends), count(&backends, "a")), (vec!["a".to_owned()], 2));
        slices.apply(slice("a2", "b"));
        take(&mut backends, &mut service_changes, &mut slice_changes);
        assert_eq!(changed(&mut backends), ["a", "b"]);
        assert_eq!((count(&backends, "a"), count(&backends, "b")), (1, 2));
        slices.remove(&slice("a2", "b"));
        services.remove(&service("a"));
        take(&mut backends, &mut service_changes, &mut slice_changes);
        assert_eq!(changed(&mut backends), ["a", "b"]);
        assert!(backends.service(&("ns".into(), "a".into())).is_none());
        // A new list without what was there before.
        slices.replace(Vec::new(), 2);
        take(&mut backends, &mut service_changes, &mut slice_changes);
        assert_eq!(
            (changed(&mut backends), count(&backends, "b")),
            (vec!["a".to_owned(), "b".to_owned()], 0)
        );
    }
}
