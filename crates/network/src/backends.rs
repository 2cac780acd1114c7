//! Services with their EndpointSlices, and which of them changed since somebody last looked.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use crate::Known;
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
    is_remembered: bool,
    /// When the changes since somebody last asked were made necessary.
    triggers: Vec<Timestamp>,
}

impl Backends {
    /// Begins with what a former run knew; what the API server says takes its place.
    pub fn remembering(known: &Known) -> Backends {
        let mut backends = Backends {
            services: Objects::remembering(&known.services),
            slices: Objects::remembering(&known.slices),
            is_remembered: !known.is_empty(),
            ..Backends::default()
        };
        backends.changed.extend(backends.services.keys().cloned());
        backends.index_slices();
        backends
    }

    /// To be kept for the next run.
    pub fn known(&self) -> Known {
        Known { services: self.services.all(), slices: self.slices.all() }
    }

    /// Whether there was anything to begin with.
    pub fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    pub fn take_service(&mut self, event: Event<Service>) {
        self.note_version(&event);
        let relisted = matches!(event, Event::InitDone);
        match &event {
            Event::Apply(service) | Event::Delete(service) => drop(self.changed.insert(key(service))),
            Event::InitDone => self.changed.extend(self.services.keys().cloned()),
            Event::Init | Event::InitApply(_) => {}
        }
        self.services.take(event);
        if relisted {
            self.changed.extend(self.services.keys().cloned());
        }
    }

    pub fn take_slice(&mut self, event: Event<EndpointSlice>) {
        self.note_version(&event);
        if let Event::Apply(slice) = &event {
            self.sees_end |= endpoints(slice).any(|one| condition(one, |c| c.terminating) == Some(true));
        }
        match &event {
            Event::Apply(slice) | Event::Delete(slice) => {
                let slice_key = key(slice);
                let known = self.slices.get(&slice_key).and_then(trigger);
                self.triggers.extend(trigger(slice).filter(|at| known != Some(*at)));
                // It may have been of another Service before.
                let before = self.slices.get(&slice_key).and_then(service_of);
                for service in before.iter().chain(&service_of(slice)) {
                    self.changed.insert(service.clone());
                    self.slices_of.entry(service.clone()).or_default().remove(&slice_key);
                }
                if let (Event::Apply(_), Some(service)) = (&event, service_of(slice)) {
                    self.slices_of.entry(service).or_default().insert(slice_key);
                }
                self.slices.take(event);
            }
            Event::InitDone => {
                self.slices.take(event);
                self.changed.extend(std::mem::take(&mut self.slices_of).into_keys());
                self.index_slices();
            }
            Event::Init | Event::InitApply(_) => drop(self.slices.take(event)),
        }
    }

    /// Whether everything was seen once: half of the objects would take away what a former run of this agent
    /// rightly made.
    pub fn is_complete(&self) -> bool {
        self.services.is_complete() && self.slices.is_complete()
    }

    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
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

    pub fn addresses(&self, pod_uid: &str) -> BTreeSet<String> {
        let of_pod = self.slices.iter().flat_map(endpoints).filter(|one| is_pod(one, pod_uid));
        of_pod.flat_map(|one| one.addresses.iter().cloned()).collect()
    }

    fn index_slices(&mut self) {
        for slice in self.slices.iter() {
            let Some(service) = service_of(slice) else { continue };
            self.changed.insert(service.clone());
            self.slices_of.entry(service).or_default().insert(key(slice));
        }
    }

    fn note_version<K: ResourceExt>(&mut self, event: &Event<K>) {
        if let Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) = event {
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

    #[test]
    fn what_made_slices_change_is_told_once() {
        let mut backends = Backends::default();
        let mut check = |at: &str, expected: usize| {
            let mut slice = slice("a", "a");
            slice.metadata.annotations = Some([(TRIGGER.to_owned(), at.to_owned())].into());
            backends.take_slice(Event::Apply(slice));
            assert_eq!(backends.take_triggers().len(), expected, "{at}");
        };
        check("2026-01-01T00:00:01Z", 1);
        check("2026-01-01T00:00:01Z", 0);
        check("2026-01-01T00:00:02.5Z", 1);
        check("nonsense", 0);
    }

    #[test]
    fn only_services_that_changed_are_named() {
        let mut backends = Backends::default();
        let changed = |backends: &mut Backends| -> Vec<String> {
            backends.take_changed().into_iter().map(|(_, name)| name).collect()
        };
        let slices = |backends: &Backends, name: &str| backends.slices(&("ns".into(), name.into())).count();
        for name in ["a", "b"] {
            backends.take_service(Event::InitApply(service(name)));
            backends.take_slice(Event::InitApply(slice(name, name)));
        }
        assert!(changed(&mut backends).is_empty() && !backends.is_complete());
        backends.take_service(Event::InitDone);
        backends.take_slice(Event::InitDone);
        assert!(backends.is_complete());
        assert_eq!(changed(&mut backends), ["a", "b"]);
        backends.take_slice(Event::Apply(slice("a2", "a")));
        assert_eq!((changed(&mut backends), slices(&backends, "a")), (vec!["a".to_owned()], 2));
        backends.take_slice(Event::Apply(slice("a2", "b")));
        assert_eq!(changed(&mut backends), ["a", "b"]);
        assert_eq!((slices(&backends, "a"), slices(&backends, "b")), (1, 2));
        backends.take_slice(Event::Delete(slice("a2", "b")));
        backends.take_service(Event::Delete(service("a")));
        assert_eq!(changed(&mut backends), ["a", "b"]);
        assert!(backends.service(&("ns".into(), "a".into())).is_none());
        // What is known outlives the process, and a list without it takes it away.
        let known = Known::from_json(&backends.known().to_json().unwrap()).unwrap();
        let mut next = Backends::remembering(&known);
        assert!(next.is_remembered() && !next.is_complete());
        assert_eq!((changed(&mut next), slices(&next, "b")), (vec!["a".to_owned(), "b".to_owned()], 1));
        next.take_service(Event::Init);
        next.take_service(Event::InitDone);
        assert_eq!(changed(&mut next), ["b"]);
        assert!(next.service(&("ns".into(), "b".into())).is_none());
        // A new list without what was there before.
        backends.take_slice(Event::Init);
        backends.take_slice(Event::InitDone);
        assert_eq!(
            (changed(&mut backends), slices(&backends, "b")),
            (vec!["a".to_owned(), "b".to_owned()], 0)
        );
    }
}
