//! Gateway and ListenerSet: where requests come in.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{
    LocalObjectReference, NamespaceSelection, ObjectReference, ParentReference, RouteGroupKind,
};
use crate::gateway_kind;

gateway_kind! {
    /// Gateway is an address with listeners, to which routes attach.
    Gateway("io.k8s.networking.gateway.v1.Gateway", "Gateway", "gateways", NamespaceResourceScope):
        GatewaySpec, GatewayStatus
}

gateway_kind! {
    /// ListenerSet adds listeners to a Gateway.
    ListenerSet("io.k8s.networking.gateway.v1.ListenerSet", "ListenerSet", "listenersets", NamespaceResourceScope):
        ListenerSetSpec, ListenerSetStatus
}

/// GatewaySpec is what a Gateway listens on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewaySpec")]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// gatewayClassName names the GatewayClass; "minik8s" is there in every cluster.
    pub gateway_class_name: String,
    /// listeners are ports with a protocol, and maybe a host name.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub listeners: Vec<Listener>,
    /// addresses that the Gateway shall have: of the Services' range and free.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<GatewayAddress>,
    /// infrastructure says what the objects are to bear that are made for the Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<GatewayInfrastructure>,
    /// allowedListeners says who may add ListenerSets; nobody by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,
    /// tls of clients and backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
}

/// ListenerSetSpec is what a ListenerSet adds to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ListenerSetSpec")]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// parentRef is the Gateway.
    #[serde(default)]
    pub parent_ref: ParentReference,
    /// listeners as in a Gateway.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub listeners: Vec<Listener>,
}

/// Listener is a port with a protocol, and maybe a host name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.Listener")]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// name by which routes refer to it.
    pub name: String,
    /// hostname that requests must be for: a name or "*.name"; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// port of the Gateway's address.
    #[serde(default)]
    pub port: i32,
    /// protocol is HTTP, HTTPS, TLS, TCP or UDP.
    #[serde(default)]
    pub protocol: String,
    /// tls of protocols HTTPS and TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// allowedRoutes says which routes may attach; those of the same namespace by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_routes: Option<AllowedRoutes>,
}

/// ListenerTLS says how a listener ends TLS, or that it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ListenerTLSConfig")]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// mode is Terminate, or Passthrough for the backend to end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// certificateRefs are Secrets of the type kubernetes.io/tls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub certificate_refs: Vec<ObjectReference>,
    /// options of other controllers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// AllowedRoutes says which routes may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.AllowedRoutes")]
#[serde(rename_all = "camelCase")]
pub struct AllowedRoutes {
    /// namespaces that routes may be in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<NamespaceSelection>,
    /// kinds of routes; those that fit the protocol by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub kinds: Vec<RouteGroupKind>,
}

/// AllowedListeners says who may add ListenerSets to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.AllowedListeners")]
#[serde(rename_all = "camelCase")]
pub struct AllowedListeners {
    /// namespaces that ListenerSets may be in; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<NamespaceSelection>,
}

/// GatewayAddress is an address of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewayAddress")]
#[serde(rename_all = "camelCase")]
pub struct GatewayAddress {
    /// type is IPAddress.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// value is the address; left out of a spec, any will do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// GatewayInfrastructure says what the objects are to bear that are made for a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewayInfrastructure")]
#[serde(rename_all = "camelCase")]
pub struct GatewayInfrastructure {
    /// labels of its Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// annotations of its Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// parametersRef is an object with settings. The controller of minik8s takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<LocalObjectReference>,
}

/// GatewayTLS is about certificates of clients, and that of the Gateway as a client of backends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewayTLSConfig")]
#[serde(rename_all = "camelCase")]
pub struct GatewayTls {
    /// backend is how the Gateway shows itself to backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<GatewayBackendTls>,
    /// frontend is what clients have to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTls>,
}

/// GatewayBackendTLS is how a Gateway shows itself to backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewayBackendTLS")]
#[serde(rename_all = "camelCase")]
pub struct GatewayBackendTls {
    /// clientCertificateRef is a Secret of the type kubernetes.io/tls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<ObjectReference>,
}

/// FrontendTLS is what clients have to show.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.FrontendTLSConfig")]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// default for all ports.
    #[serde(default)]
    pub default: FrontendTlsSettings,
    /// perPort overrules it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["port"]))]
    pub per_port: Vec<FrontendTlsPort>,
}

/// FrontendTLSPort is what clients of one port have to show.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.TLSPortConfig")]
#[serde(rename_all = "camelCase")]
pub struct FrontendTlsPort {
    /// port of listeners.
    pub port: i32,
    /// tls of this port.
    #[serde(default)]
    pub tls: FrontendTlsSettings,
}

/// FrontendTLSSettings says whether clients have to show a certificate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.TLSConfig")]
#[serde(rename_all = "camelCase")]
pub struct FrontendTlsSettings {
    /// validation of clients' certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<FrontendTlsValidation>,
}

/// FrontendTLSValidation says which certificates of clients are good.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.FrontendTLSValidation")]
#[serde(rename_all = "camelCase")]
pub struct FrontendTlsValidation {
    /// caCertificateRefs are ConfigMaps with a "ca.crt".
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// mode is AllowValidOnly or AllowInsecureFallback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// GatewayStatus says where a Gateway is reached, and what became of its listeners.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewayStatus")]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    /// addresses at which it is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<GatewayAddress>,
    /// conditions of the Gateway as a whole.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// listeners, one by one.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub listeners: Vec<ListenerStatus>,
    /// attachedListenerSets that were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_listener_sets: Option<i32>,
}

/// ListenerSetStatus says what a Gateway has made of a ListenerSet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ListenerSetStatus")]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetStatus {
    /// conditions of the set as a whole.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// listeners, one by one.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub listeners: Vec<ListenerStatus>,
}

/// ListenerStatus says what became of a listener.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ListenerStatus")]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// name of the listener.
    pub name: String,
    /// supportedKinds of routes that may attach.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub supported_kinds: Vec<RouteGroupKind>,
    /// attachedRoutes is how many have.
    #[serde(default)]
    pub attached_routes: i32,
    /// conditions of the listener.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
