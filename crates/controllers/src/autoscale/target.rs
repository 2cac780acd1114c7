//! What an autoscaler scales: anything with a scale. The usual workloads are read from the caches; of other kinds the
//! scale itself is asked for.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::ReplicationController;
use minik8s_runtime::{Caches, Key, Kind, Selector};

use super::scales::Scales;

/// The target as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub kind: Kind,
    pub key: Key,
    /// `spec.replicas`: what was asked for.
    pub wanted: i32,
    /// `status.replicas`: what there is.
    pub existing: i32,
    /// None: it tells of no selector.
    pub selector: Option<Selector>,
}

/// Why there is no target, in the API's words.
pub type Missing = String;

/// The target of an autoscaler. None: it is not known yet; the autoscaler is woken when it is.
pub fn find(
    caches: &Caches,
    scales: &Scales,
    autoscaler: &HorizontalPodAutoscaler,
) -> Option<Result<Target, Missing>> {
    let of = Key::of_meta(&autoscaler.metadata);
    let reference = &autoscaler.spec.scale_target_ref;
    let key = Key::new(&*of.namespace, &*reference.name);
    let api_version = reference.api_version.as_deref().unwrap_or("v1");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let found = match (group, reference.kind.as_str()) {
        ("apps", "Deployment") => caches.of::<Deployment>().get(&key).map(|object| Target {
            kind: Kind::of::<Deployment>(),
            wanted: object.spec.replicas.unwrap_or(1),
            existing: object.status.as_ref().and_then(|status| status.replicas).unwrap_or(0),
            selector: Some(Selector::new(Some(&object.spec.selector))),
            key: key.clone(),
        }),
        ("apps", "ReplicaSet") => caches.of::<ReplicaSet>().get(&key).map(|object| Target {
            kind: Kind::of::<ReplicaSet>(),
            wanted: object.spec.replicas.unwrap_or(1),
            existing: object.status.as_ref().map_or(0, |status| status.replicas),
            selector: Some(Selector::new(Some(&object.spec.selector))),
            key: key.clone(),
        }),
        ("apps", "StatefulSet") => caches.of::<StatefulSet>().get(&key).map(|object| Target {
            kind: Kind::of::<StatefulSet>(),
            wanted: object.spec.replicas.unwrap_or(1),
            existing: object.status.as_ref().map_or(0, |status| status.replicas),
            selector: Some(Selector::new(Some(&object.spec.selector))),
            key: key.clone(),
        }),
        ("", "ReplicationController") => caches.of::<ReplicationController>().get(&key).map(|object| {
            let spec = object.spec.as_ref();
            Target {
                kind: Kind::of::<ReplicationController>(),
                wanted: spec.and_then(|spec| spec.replicas).unwrap_or(1),
                existing: object.status.as_ref().map_or(0, |status| status.replicas),
                selector: Some(Selector::equal(spec.and_then(|spec| spec.selector.as_ref()))),
                key: key.clone(),
            }
        }),
        _ => return scales.find(&of, group, version, &reference.kind, &key),
    };
    let resource = if group.is_empty() { String::new() } else { format!(".{group}") };
    let plural = format!("{}s{resource}", reference.kind.to_lowercase());
    Some(found.ok_or_else(|| format!("{plural} \"{}\" not found", key.name)))
}
