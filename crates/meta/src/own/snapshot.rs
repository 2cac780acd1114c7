//! The fields of `snapshot.storage.k8s.io/v1`: VolumeSnapshot, VolumeSnapshotContent and VolumeSnapshotClass, as the
//! Kubernetes project defines them outside its core.
//!
//! A VolumeSnapshot is a user's wish, a VolumeSnapshotContent the snapshot in the storage system; each names the other, as
//! claims and volumes do.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::{api_version, kind};
use crate::served_type;

pub const GROUP: &str = "snapshot.storage.k8s.io";

/// VolumeSnapshot is a user's request for a snapshot of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshot")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshot {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<VolumeSnapshot>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<VolumeSnapshot>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants. It cannot be changed.
    #[serde(default)]
    pub spec: VolumeSnapshotSpec,
    /// status is what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotStatus>,
}

/// VolumeSnapshotSpec is of what a snapshot is, and how it is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotSpec")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSpec {
    /// source is where the snapshot comes from: exactly one of its fields.
    #[serde(default)]
    pub source: VolumeSnapshotSource,
    /// volumeSnapshotClassName is the class; the default one of the volume's driver if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
}

/// VolumeSnapshotSource is a claim, or a snapshot that is there already.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotSource")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSource {
    /// persistentVolumeClaimName is the claim of the same namespace whose volume a snapshot is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// volumeSnapshotContentName is the content of a snapshot that is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_content_name: Option<String>,
}

/// VolumeSnapshotStatus is what became of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotStatus")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// boundVolumeSnapshotContentName is the content of this snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_volume_snapshot_content_name: Option<String>,
    /// creationTime is the moment whose data the snapshot has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// readyToUse says whether claims can start with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// restoreSize is the least size of a claim that starts with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<Quantity>,
    /// error is why there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// volumeGroupSnapshotName is the group snapshot that this one is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_name: Option<String>,
}

/// VolumeSnapshotError is what went wrong, and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotError")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotError {
    /// time of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// message says what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// VolumeSnapshotContent is a snapshot in a storage system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotContent")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContent {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<VolumeSnapshotContent>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<VolumeSnapshotContent>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is which snapshot this is.
    #[serde(default)]
    pub spec: VolumeSnapshotContentSpec,
    /// status is what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotContentStatus>,
}

/// VolumeSnapshotContentSpec is which snapshot of a storage system a content is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotContentSpec")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSpec {
    /// volumeSnapshotRef is the VolumeSnapshot that this is the content of.
    #[serde(default)]
    pub volume_snapshot_ref: ObjectReference,
    /// deletionPolicy says whether the snapshot in the storage system goes with the VolumeSnapshot: Delete or Retain.
    #[serde(default)]
    pub deletion_policy: String,
    /// driver is the CSI driver that has it.
    #[serde(default)]
    pub driver: String,
    /// volumeSnapshotClassName is the class with which it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    /// source is of what it is made, or what it is: exactly one of its fields.
    #[serde(default)]
    pub source: VolumeSnapshotContentSource,
    /// sourceVolumeMode is the mode of the volume of which it is: Filesystem or Block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_volume_mode: Option<String>,
}

/// VolumeSnapshotContentSource is a volume, or a snapshot, as the driver calls it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotContentSource")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSource {
    /// volumeHandle is the volume of which a snapshot is to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// snapshotHandle is a snapshot that is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
}

/// VolumeSnapshotContentStatus is what the driver said of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotContentStatus")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentStatus {
    /// snapshotHandle is the driver's name of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
    /// creationTime in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// restoreSize in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
    /// readyToUse says whether volumes can be made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// error is why there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// volumeGroupSnapshotHandle is the group snapshot that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
}

/// VolumeSnapshotClass is how snapshots are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.storage.snapshot.v1.VolumeSnapshotClass")]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotClass {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<VolumeSnapshotClass>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<VolumeSnapshotClass>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// driver is the CSI driver that makes the snapshots.
    #[serde(default)]
    pub driver: String,
    /// parameters are the driver's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// deletionPolicy of the contents that are made with it: Delete or Retain.
    #[serde(default)]
    pub deletion_policy: String,
}

served_type!(VolumeSnapshot: "snapshot.storage.k8s.io" "v1" "VolumeSnapshot" "volumesnapshots" NamespaceResourceScope);
served_type!(VolumeSnapshotContent: "snapshot.storage.k8s.io" "v1" "VolumeSnapshotContent" "volumesnapshotcontents" ClusterResourceScope);
served_type!(VolumeSnapshotClass: "snapshot.storage.k8s.io" "v1" "VolumeSnapshotClass" "volumesnapshotclasses" ClusterResourceScope);
