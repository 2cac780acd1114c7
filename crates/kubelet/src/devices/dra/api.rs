//! Messages of the kubelet's side of dynamic resource allocation (`dra/v1`), by the field numbers of its interface
//! description.

use std::collections::HashMap;

use minik8s_csi::Call;

/// The type of plugins that are drivers of devices.
pub const DRA_PLUGIN: &str = "DRAPlugin";
/// What such a plugin must support.
pub const VERSION: &str = "v1.DRAPlugin";

#[derive(Clone, PartialEq, prost::Message)]
pub struct Claim {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResources {
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePreparedResources {
    /// By the claim's UID.
    #[prost(map = "string, message", tag = "1")]
    pub claims: HashMap<String, PreparedResource>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PreparedResource {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
    #[prost(string, tag = "2")]
    pub error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// Of the claim; none: all of them.
    #[prost(string, repeated, tag = "1")]
    pub request_names: Vec<String>,
    #[prost(string, tag = "2")]
    pub pool_name: String,
    #[prost(string, tag = "3")]
    pub device_name: String,
    #[prost(string, repeated, tag = "4")]
    pub cdi_device_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResources {
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnpreparedResources {
    #[prost(map = "string, message", tag = "1")]
    pub claims: HashMap<String, UnpreparedResource>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnpreparedResource {
    #[prost(string, tag = "1")]
    pub error: String,
}

const SERVICE: &str = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin";

impl Call for NodePrepareResources {
    type Answer = NodePreparedResources;
    const SERVICE: &'static str = SERVICE;
    const METHOD: &'static str = "NodePrepareResources";
}

impl Call for NodeUnprepareResources {
    type Answer = NodeUnpreparedResources;
    const SERVICE: &'static str = SERVICE;
    const METHOD: &'static str = "NodeUnprepareResources";
}
