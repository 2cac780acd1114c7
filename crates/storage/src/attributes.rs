//! VolumeAttributesClasses: one that a claim or a volume has, or is about to get, is deleted only after them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Target, Watches};

use crate::annotation::finalizers_patch;

pub const PROTECTION: &str = "kubernetes.io/vac-protection";

pub struct AttributesProtection;

pub struct Observed {
    class: Arc<VolumeAttributesClass>,
    /// Only looked for if it shall go.
    is_used: bool,
}

impl Controller for AttributesProtection {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "volumeattributesclass-protection-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<VolumeAttributesClass>();
        watches.on::<PersistentVolumeClaim>(|_, claim| keys(of_claim(claim)));
        watches.on::<PersistentVolume>(|_, volume| keys(of_volume(volume)));
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let class = caches.of::<VolumeAttributesClass>().get(key)?;
        let is_its = |name: &str| name == key.name;
        let is_used = class.metadata.deletion_timestamp.is_some()
            && (caches.of::<PersistentVolume>().list().iter().any(|one| of_volume(one).any(is_its))
                || caches.of::<PersistentVolumeClaim>().list().iter().any(|one| of_claim(one).any(is_its)));
        Some(Observed { class, is_used })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let meta = &seen.class.metadata;
        let patch = match meta.deletion_timestamp.is_some() {
            true => finalizers_patch(meta, &[], &[PROTECTION]).filter(|_| !seen.is_used),
            false => finalizers_patch(meta, &[PROTECTION], &[]),
        };
        if let Some(patch) = patch {
            let target = Target::unchanged(&*seen.class);
            plan.act(Action::Patch { target, subresource: None, patch });
        }
        plan
    }
}

fn keys<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Key> {
    names.map(|name| Key::new("", name)).collect()
}

/// Those that it wants, has, and is getting.
fn of_claim(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &str> {
    let status = claim.status.as_ref();
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let target = status.and_then(|status| {
        status.modify_volume_status.as_ref()?.target_volume_attributes_class_name.as_deref()
    });
    [wanted, current, target].into_iter().flatten()
}

fn of_volume(volume: &PersistentVolume) -> impl Iterator<Item = &str> {
    volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).into_iter()
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn class_goes_only_after_claims_and_volumes_that_have_it() {
        let check = |claim: Value, volume: Value, stays: bool| {
            let build = || {
                let mut world = World::default();
                let read = json!({"metadata": {"name": "gold", "finalizers": [PROTECTION],
                    "deletionTimestamp": "2026-01-01T00:00:00Z"}, "driverName": "d"});
                world.insert::<VolumeAttributesClass>(&serde_json::from_value(read).unwrap());
                let mut object = claim.clone();
                object["metadata"] = json!({"name": "c", "namespace": "ns"});
                world.insert::<PersistentVolumeClaim>(&serde_json::from_value(object).unwrap());
                let object = json!({"metadata": {"name": "v"}, "spec": volume});
                world.insert::<PersistentVolume>(&serde_json::from_value(object).unwrap());
                Simulation::new(world).with(AttributesProtection)
            };
            check_convergence(build, |simulation| {
                let found = simulation.world.get::<VolumeAttributesClass>(&Key::new("", "gold"));
                assert_eq!(found.is_some(), stays, "{claim} {volume}");
            });
        };
        check(json!({}), json!({}), false);
        check(json!({"spec": {"volumeAttributesClassName": "silver"}}), json!({}), false);
        check(json!({"spec": {"volumeAttributesClassName": "gold"}}), json!({}), true);
        check(json!({"status": {"currentVolumeAttributesClassName": "gold"}}), json!({}), true);
        let target = json!({"targetVolumeAttributesClassName": "gold", "status": "InProgress"});
        check(json!({"status": {"modifyVolumeStatus": target}}), json!({}), true);
        check(json!({}), json!({"volumeAttributesClassName": "gold"}), true);
    }

    #[test]
    fn class_is_protected_when_it_is_made() {
        let build = || {
            let mut world = World::default();
            let class = json!({"metadata": {"name": "gold"}, "driverName": "d"});
            world.insert::<VolumeAttributesClass>(&serde_json::from_value(class).unwrap());
            Simulation::new(world).with(AttributesProtection)
        };
        check_convergence(build, |simulation| {
            let class = simulation.world.get::<VolumeAttributesClass>(&Key::new("", "gold")).unwrap();
            assert_eq!(class.metadata.finalizers.unwrap(), [PROTECTION]);
        });
    }
}
