//! The status of a bound claim, and its growth. Pure.
//!
//! A volume of ours grows in two steps: its size is raised here, and the agent of its node makes the file system so
//! large, online, and then says so in the claim's status. Volumes of others are grown by their own resizers.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use minik8s_meta::{Quantity, local_volume};
use minik8s_runtime::{Action, EventRecord, Plan, Target};
use serde_json::json;

use crate::annotation::{PRE_RESIZE_CAPACITY, annotation};
use crate::attach::driver_of;
use crate::fit::{attributes_class, capacity, requested, storage};

/// Bound, with the size and the modes of the volume. Size and attributes of a claim that is bound already are others' to
/// tell: the agent's, or a resizer's.
pub fn bound(claim: &PersistentVolumeClaim, volume: &PersistentVolume, plan: &mut Plan) {
    let status = claim.status.clone().unwrap_or_default();
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.clone());
    let is_told = status.phase.as_deref() == Some("Bound") && status.capacity.is_some();
    if is_told && status.access_modes == modes {
        return;
    }
    let mut told = json!({"phase": "Bound", "accessModes": modes});
    if !is_told {
        let before = annotation(&volume.metadata, PRE_RESIZE_CAPACITY);
        let before = before.and_then(|size| Quantity::parse(size).ok());
        let attributes = volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
        told["capacity"] = json!({"storage": before.unwrap_or_else(|| capacity(volume)).to_string()});
        told["currentVolumeAttributesClassName"] = json!(attributes);
    }
    plan.act(Action::patch_status(claim, told));
}

/// Makes the volume as large as the claim wants it.
pub fn grow(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    class: Option<&StorageClass>,
    plan: &mut Plan,
) {
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    let is_ours = csi.is_some_and(|csi| csi.driver == local_volume::DRIVER);
    let wanted = requested(claim);
    let known = claim.status.as_ref().map(|status| storage(status.capacity.as_ref()));
    if !is_ours || known.is_none_or(|known| wanted <= known) {
        return;
    }
    if class.is_none_or(|class| class.allow_volume_expansion != Some(true)) {
        let message = "its class does not allow volumes to grow (allowVolumeExpansion)";
        return plan.event(EventRecord::warning(claim, "VolumeResizeFailed", message));
    }
    if capacity(volume) < wanted {
        let patch = json!({"spec": {"capacity": {"storage": wanted.to_string()}}});
        plan.act(Action::Patch { target: Target::unchanged(volume), subresource: None, patch });
    }
    let statuses = claim.status.as_ref().and_then(|status| status.allocated_resource_statuses.as_ref());
    if statuses.is_none_or(|statuses| !statuses.contains_key("storage")) {
        let message =
            "Waiting for the node to make the file system larger; it does so while a pod uses the claim.";
        let patch = json!({"status": {
            "allocatedResources": {"storage": wanted.to_string()},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [{"type": "FileSystemResizePending", "status": "True", "message": message}],
        }});
        // The node may be done already: its word is never taken back.
        plan.act(Action::Patch { target: Target::unchanged(claim), subresource: Some("status"), patch });
        plan.event(EventRecord::normal(claim, "FileSystemResizeRequired", message));
    }
}

/// Volumes that no driver makes have nothing that could be changed. For those of drivers, the drivers are asked.
pub fn refuse_modification(claim: &PersistentVolumeClaim, volume: &PersistentVolume, plan: &mut Plan) {
    let current =
        claim.status.as_ref().and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let wanted = attributes_class(claim).filter(|wanted| current != Some(wanted));
    if let Some(wanted) =
        wanted.filter(|_| driver_of(volume).is_none_or(|driver| driver == local_volume::DRIVER))
    {
        let message =
            format!("the volume has nothing that the VolumeAttributesClass {wanted:?} could change");
        plan.event(EventRecord::warning(claim, "VolumeModifyFailed", message));
    }
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::World;

    use super::*;

    #[test]
    fn claim_of_a_grown_volume_has_the_size_of_its_file_system() {
        let mut world = World::default();
        let object = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": {}});
        let mut claim = world.insert::<PersistentVolumeClaim>(&serde_json::from_value(object).unwrap());
        for modes in [["ReadWriteOnce"], ["ReadWriteMany"]] {
            // Without the annotation once it is bound: the size is not told a second time.
            let before = json!({"metadata": {"name": "v", "annotations": {PRE_RESIZE_CAPACITY: "1Gi"}},
                "spec": {"capacity": {"storage": "6Gi"}, "accessModes": modes}});
            let mut volume: PersistentVolume = serde_json::from_value(before).unwrap();
            if claim.status.is_some() {
                volume.metadata.annotations = None;
            }
            let mut plan = Plan::default();
            bound(&claim, &volume, &mut plan);
            world.apply(&plan.actions[0]).unwrap();
            claim = world.list::<PersistentVolumeClaim>().remove(0);
            let status = claim.status.clone().unwrap();
            assert_eq!(status.capacity.unwrap()["storage"].0, "1Gi");
            assert_eq!(status.access_modes.unwrap(), modes);
        }
    }

    #[test]
    fn growth_is_not_called_pending_after_the_node_was_done() {
        let mut world = World::default();
        let object = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": {"volumeName": "v",
                "resources": {"requests": {"storage": "2Gi"}}}, "status": {"capacity": {"storage": "1Gi"}}});
        let claim = world.insert::<PersistentVolumeClaim>(&serde_json::from_value(object).unwrap());
        let object = json!({"metadata": {"name": "v", "uid": "v"}, "spec": {"capacity": {"storage": "1Gi"},
            "csi": {"driver": local_volume::DRIVER, "volumeHandle": "v"}}});
        let volume = world.insert::<PersistentVolume>(&serde_json::from_value(object).unwrap());
        let class = StorageClass { allow_volume_expansion: Some(true), ..StorageClass::default() };
        let mut plan = Plan::default();
        grow(&claim, &volume, Some(&class), &mut plan);
        let [larger, pending] = &plan.actions[..] else { panic!("{:?}", plan.actions) };
        world.apply(larger).unwrap();
        let done = json!({"capacity": {"storage": "2Gi"}, "conditions": null});
        world.apply(&Action::patch_status(&claim, done)).unwrap();
        assert!(world.apply(pending).is_err());
    }
}
