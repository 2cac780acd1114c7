//! The annotations and finalizers by which Kubernetes' storage controllers, schedulers and provisioners speak.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// The binding of a claim is complete: if its volume goes, its data is lost.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The binding was our choice, not the user's, and may be undone.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The size of the file system in a volume that was grown, until that is grown too: so whoever has the volume next grows it.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// Who made a volume.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The node that the scheduler chose for the first pod of a claim.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Who shall make a volume for a claim; external provisioners wait for one of them.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub const STORAGE_PROVISIONER_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// Claims that name no class get the one that says so.
pub const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

pub fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

/// A patch that adds or takes away finalizers; None if that changes nothing.
pub fn finalizers_patch(meta: &ObjectMeta, add: &[&str], remove: &[&str]) -> Option<Value> {
    let have = meta.finalizers.clone().unwrap_or_default();
    let mut wanted: Vec<&str> = have.iter().map(String::as_str).filter(|one| !remove.contains(one)).collect();
    for name in add {
        if !wanted.contains(name) {
            wanted.push(name);
        }
    }
    (wanted != have).then(|| json!({"metadata": {"finalizers": wanted}}))
}
