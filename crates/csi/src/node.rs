//! The node service: volumes on the machine where the driver runs.

use crate::call::calls;
use crate::{CapacityRange, Pairs, Topology, VolumeCapability};

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetInfo {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Info {
    #[prost(string, tag = "1")]
    pub node_id: String,
    #[prost(int64, tag = "2")]
    pub max_volumes_per_node: i64,
    #[prost(message, optional, tag = "3")]
    pub accessible_topology: Option<Topology>,
}

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

/// What a driver can do on a node beyond publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Can {
    Unknown = 0,
    StageUnstageVolume = 1,
    GetVolumeStats = 2,
    ExpandVolume = 3,
    VolumeCondition = 4,
    SingleNodeMultiWriter = 5,
    VolumeMountGroup = 6,
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
pub struct StageVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub publish_context: Pairs,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(map = "string, string", tag = "5")]
    pub secrets: Pairs,
    #[prost(map = "string, string", tag = "6")]
    pub volume_context: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnstageVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub staging_target_path: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PublishVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub publish_context: Pairs,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(string, tag = "4")]
    pub target_path: String,
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "6")]
    pub readonly: bool,
    #[prost(map = "string, string", tag = "7")]
    pub secrets: Pairs,
    #[prost(map = "string, string", tag = "8")]
    pub volume_context: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnpublishVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub target_path: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExpandVolume {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub volume_path: String,
    #[prost(message, optional, tag = "3")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(string, tag = "4")]
    pub staging_target_path: String,
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(map = "string, string", tag = "6")]
    pub secrets: Pairs,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExpandedVolume {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetVolumeStats {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub volume_path: String,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct VolumeStats {
    #[prost(message, repeated, tag = "1")]
    pub usage: Vec<VolumeUsage>,
    /// None of drivers that do not look.
    #[prost(message, optional, tag = "2")]
    pub volume_condition: Option<VolumeCondition>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct VolumeCondition {
    #[prost(bool, tag = "1")]
    pub abnormal: bool,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct VolumeUsage {
    #[prost(int64, tag = "1")]
    pub available: i64,
    #[prost(int64, tag = "2")]
    pub total: i64,
    #[prost(int64, tag = "3")]
    pub used: i64,
    #[prost(enumeration = "Unit", tag = "4")]
    pub unit: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Unit {
    Unknown = 0,
    Bytes = 1,
    Inodes = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Done {}

calls! { "csi.v1.Node":
    GetInfo => Info, "NodeGetInfo";
    GetCapabilities => Capabilities, "NodeGetCapabilities";
    StageVolume => Done, "NodeStageVolume";
    UnstageVolume => Done, "NodeUnstageVolume";
    PublishVolume => Done, "NodePublishVolume";
    UnpublishVolume => Done, "NodeUnpublishVolume";
    ExpandVolume => ExpandedVolume, "NodeExpandVolume";
    GetVolumeStats => VolumeStats, "NodeGetVolumeStats";
}
