//! The identity service.

use crate::call::calls;

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetPluginInfo {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetPluginCapabilities {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginCapabilities {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginCapability {
    #[prost(oneof = "PluginKind", tags = "1, 2")]
    pub kind: Option<PluginKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum PluginKind {
    #[prost(message, tag = "1")]
    Service(PluginType),
    #[prost(message, tag = "2")]
    VolumeExpansion(PluginType),
}

/// One means the controller service here, and growth while a volume is used there.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct PluginType {
    #[prost(int32, tag = "1")]
    pub number: i32,
}

impl PluginCapabilities {
    /// With a controller service, and volumes that grow while they are used.
    pub fn controller_and_growth() -> Self {
        let one = PluginType { number: 1 };
        let kinds = [PluginKind::Service(one), PluginKind::VolumeExpansion(one)];
        PluginCapabilities { capabilities: kinds.map(|kind| PluginCapability { kind: Some(kind) }).to_vec() }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Probe {}

/// Without a word it is ready.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Probed {}

calls! { "csi.v1.Identity":
    GetPluginInfo => PluginInfo, "GetPluginInfo";
    GetPluginCapabilities => PluginCapabilities, "GetPluginCapabilities";
    Probe => Probed, "Probe";
}
