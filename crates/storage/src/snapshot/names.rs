//! The finalizers, annotations and parameters by which snapshot controllers, sidecars and drivers speak, and the names that
//! are computed. Those of the Kubernetes project, so that its csi-snapshotter does its part for drivers that bring it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_csi::Pairs;
use minik8s_meta::snapshot::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};

/// Kept on a snapshot while a claim is being made of it.
pub const AS_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Kept on a snapshot until its content is dealt with.
pub const BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Kept on a content until its snapshot in the storage system is dealt with.
pub const CONTENT: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Kept on a claim while a snapshot of it is being made.
pub const CLAIM: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Says on a content that its VolumeSnapshot is gone, or going.
pub const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
pub const IS_DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";
pub const DELETION_SECRET: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";
pub const DELETION_SECRET_NAMESPACE: &str = "snapshot.storage.kubernetes.io/deletion-secret-namespace";

const PREFIX: &str = "csi.storage.k8s.io/";

/// The content that is made for a snapshot; making it twice makes one.
pub fn content_name(snapshot: &VolumeSnapshot) -> String {
    format!("snapcontent-{}", snapshot.metadata.uid.as_deref().unwrap_or_default())
}

/// What a driver calls the snapshot of a content that was made for a VolumeSnapshot.
pub fn snapshot_name(content: &VolumeSnapshotContent) -> String {
    format!("snapshot-{}", content.spec.volume_snapshot_ref.uid.as_deref().unwrap_or_default())
}

/// The driver's name of a content's snapshot, once it is known.
pub fn handle(content: &VolumeSnapshotContent) -> Option<&str> {
    let told = content.status.as_ref().and_then(|status| status.snapshot_handle.as_deref());
    told.or(content.spec.source.snapshot_handle.as_deref())
}

pub fn is_ready(content: &VolumeSnapshotContent) -> bool {
    content.status.as_ref().is_some_and(|status| status.ready_to_use == Some(true))
}

/// Whether a content is that of a snapshot: each names the other.
pub fn is_of(content: &VolumeSnapshotContent, snapshot: &VolumeSnapshot) -> bool {
    let kept = &content.spec.volume_snapshot_ref;
    kept.namespace == snapshot.metadata.namespace
        && kept.name == snapshot.metadata.name
        && kept.uid.is_some()
        && kept.uid == snapshot.metadata.uid
}

pub fn has_finalizer(meta: &ObjectMeta, name: &str) -> bool {
    meta.finalizers.iter().flatten().any(|one| one == name)
}

/// A class's parameters for the driver alone.
pub fn plain_parameters(class: Option<&VolumeSnapshotClass>) -> Pairs {
    let all = class.and_then(|class| class.parameters.clone()).unwrap_or_default();
    all.into_iter().filter(|(key, _)| !key.starts_with(PREFIX)).collect()
}

/// Name and namespace of the secret that a class names for its driver, with the snapshot's names put in.
pub fn secret(class: &VolumeSnapshotClass, snapshot: &VolumeSnapshot) -> Option<(String, String)> {
    let parameters = class.parameters.as_ref()?;
    let part = |part: &str| {
        let text = parameters.get(&format!("{PREFIX}snapshotter-secret-{part}"))?;
        let name = snapshot.metadata.name.as_deref().unwrap_or_default();
        let namespace = snapshot.metadata.namespace.as_deref().unwrap_or_default();
        let text = text.replace("${volumesnapshotcontent.name}", &content_name(snapshot));
        let text = text.replace("${volumesnapshot.name}", name);
        Some(text.replace("${volumesnapshot.namespace}", namespace))
    };
    Some((part("name")?, part("namespace")?))
}
