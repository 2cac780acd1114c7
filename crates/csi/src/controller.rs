//! The controller service: volumes and snapshots in the storage system, whatever that is.

use crate::call::calls;
use crate::{CapacityRange, Pairs, Topology, TopologyRequirement, VolumeCapability};

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetCapabilities {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Capabilities {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<ServiceCapability>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ServiceCapability {
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<Rpc>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Rpc {
    #[prost(enumeration = "Can", tag = "1")]
    pub kind: i32,
}

/// What a driver can do with volumes and snapshots; of those that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Can {
    Unknown = 0,
    CreateDeleteVolume = 1,
    PublishUnpublishVolume = 2,
    CreateDeleteSnapshot = 5,
    CloneVolume = 7,
    PublishReadonly = 8,
    ExpandVolume = 9,
    SingleNodeMultiWriter = 13,
    ModifyVolume = 14,
}

impl Capabilities {
    pub fn of(all: &[Can]) -> Self {
        let one = |can: &Can| ServiceCapability { rpc: Some(Rpc { kind: *can as i32 }) };
        Capabilities { capabilities: all.iter().map(one).collect() }
    }

    pub fn has(&self, can: Can) -> bool {
        self.capabilities.iter().filter_map(|one| one.rpc.as_ref()).any(|rpc| rpc.kind == can as i32)
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateVolume {
    /// Making a volume of the same name again gives the same one.
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(map = "string, string", tag = "4")]
    pub parameters: Pairs,
    #[prost(map = "string, string", tag = "5")]
    pub secrets: Pairs,
    #[prost(message, optional, tag = "6")]
    pub volume_content_source: Option<VolumeContentSource>,
    #[prost(message, optional, tag = "7")]
    pub accessibility_requirements: Option<TopologyRequirement>,
    /// What can be changed later.
    #[prost(map = "string, string", tag = "8")]
    pub mutable_parameters: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct VolumeContentSource {
    #[prost(oneof = "Content", tags = "1, 2")]
    pub content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Content {
    #[prost(message, tag = "1")]
    Snapshot(SnapshotSource),
    #[prost(message, tag = "2")]
    Volume(VolumeSource),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SnapshotSource {
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct VolumeSource {
    #[prost(string, tag = "1")]
    pub volume_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreatedVolume {
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Volume {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    #[prost(string, tag = "2")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "3")]
    pub volume_context: Pairs,
    #[prost(message, optional, tag = "4")]
    pub content_source: Option<VolumeContentSource>,
    #[prost(message, repeated, tag = "5")]
    pub accessible_topology: Vec<Topology>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub secrets: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PublishVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub node_id: String,
    #[prost(message, optional, tag = "3")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "4")]
    pub readonly: bool,
    #[prost(map = "string, string", tag = "5")]
    pub secrets: Pairs,
    #[prost(map = "string, string", tag = "6")]
    pub volume_context: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PublishedVolume {
    #[prost(map = "string, string", tag = "1")]
    pub publish_context: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnpublishVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub node_id: String,
    #[prost(map = "string, string", tag = "3")]
    pub secrets: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExpandVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(map = "string, string", tag = "3")]
    pub secrets: Pairs,
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExpandedVolume {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    #[prost(bool, tag = "2")]
    pub node_expansion_required: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ModifyVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub secrets: Pairs,
    #[prost(map = "string, string", tag = "3")]
    pub mutable_parameters: Pairs,
}

/// Whether a volume can be used so.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValidateCapabilities {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ValidatedCapabilities {
    #[prost(message, optional, tag = "1")]
    pub confirmed: Option<ConfirmedCapabilities>,
    /// Why not.
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ConfirmedCapabilities {
    #[prost(message, repeated, tag = "2")]
    pub volume_capabilities: Vec<VolumeCapability>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateSnapshot {
    #[prost(string, tag = "1")]
    pub source_volume_id: String,
    /// Making a snapshot of the same name again gives the same one.
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(map = "string, string", tag = "3")]
    pub secrets: Pairs,
    #[prost(map = "string, string", tag = "4")]
    pub parameters: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreatedSnapshot {
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Snapshot {
    #[prost(int64, tag = "1")]
    pub size_bytes: i64,
    #[prost(string, tag = "2")]
    pub snapshot_id: String,
    #[prost(string, tag = "3")]
    pub source_volume_id: String,
    #[prost(message, optional, tag = "4")]
    pub creation_time: Option<Time>,
    #[prost(bool, tag = "5")]
    pub ready_to_use: bool,
}

/// Since 1970.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Time {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteSnapshot {
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub secrets: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Done {}

calls! { "csi.v1.Controller":
    GetCapabilities => Capabilities, "ControllerGetCapabilities";
    CreateVolume => CreatedVolume, "CreateVolume";
    DeleteVolume => Done, "DeleteVolume";
    PublishVolume => PublishedVolume, "ControllerPublishVolume";
    UnpublishVolume => Done, "ControllerUnpublishVolume";
    ExpandVolume => ExpandedVolume, "ControllerExpandVolume";
    ModifyVolume => Done, "ControllerModifyVolume";
    CreateSnapshot => CreatedSnapshot, "CreateSnapshot";
    DeleteSnapshot => Done, "DeleteSnapshot";
}

pub const SERVICE: &str = "csi.v1.Controller";

/// The calls of this service that are used here.
pub const METHODS: &[&str] = &[
    "ControllerGetCapabilities",
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "ControllerExpandVolume",
    "ControllerModifyVolume",
    "CreateSnapshot",
    "DeleteSnapshot",
];
