//! How a driver makes itself known to a node's agent: it serves this on a socket in a directory that the agent watches.

use crate::call::calls;

/// The type of plugins that are drivers of volumes.
pub const CSI_PLUGIN: &str = "CSIPlugin";

#[derive(Clone, PartialEq, prost::Message)]
pub struct InfoRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInfo {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub name: String,
    /// The driver's socket, if it is another one.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatus {
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    #[prost(string, tag = "2")]
    pub error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatusResponse {}

calls! { "pluginregistration.Registration":
    InfoRequest => PluginInfo, "GetInfo";
    RegistrationStatus => RegistrationStatusResponse, "NotifyRegistrationStatus";
}
