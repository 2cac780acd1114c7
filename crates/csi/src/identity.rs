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

calls! { "csi.v1.Identity": GetPluginInfo => PluginInfo, "GetPluginInfo" }
