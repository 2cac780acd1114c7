//! What the Gateway API's controller tells the mesh of routes whose parent is a Service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GatewayMatch, GatewayRule};
use crate::own::mesh::ProxyCounts;
use crate::own::{api_version, kind};
use crate::served_type;

/// ServiceRoute tells the mesh what was made of the routes whose parent is the Service of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.ServiceRoute")]
#[serde(rename_all = "camelCase")]
pub struct ServiceRoute {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<ServiceRoute>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<ServiceRoute>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the mesh must know.
    #[serde(default)]
    pub spec: ServiceRouteSpec,
    /// status is what the mesh has made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ServiceRouteStatus>,
}

/// ServiceRouteStatus says who routes by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.ServiceRouteStatus")]
#[serde(rename_all = "camelCase")]
pub struct ServiceRouteStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// proxies that run, and those of them that route by it.
    #[serde(default)]
    pub proxies: ProxyCounts,
    /// problem is why nobody can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Default for ServiceRoute {
    fn default() -> Self {
        ServiceRoute {
            api_version: api_version::<ServiceRoute>(),
            kind: kind::<ServiceRoute>(),
            metadata: ObjectMeta::default(),
            spec: ServiceRouteSpec::default(),
            status: None,
        }
    }
}

served_type!(ServiceRoute: "internal.minik8s.io" "v1" "ServiceRoute" "serviceroutes" NamespaceResourceScope);

/// ServiceRouteSpec is where requests to one Service lead.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.ServiceRouteSpec")]
#[serde(rename_all = "camelCase")]
pub struct ServiceRouteSpec {
    /// ports of the Service that routes are about.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<ServiceRoutePort>,
    /// rules that matches name by their number.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<GatewayRule>,
}

/// ServiceRoutePort is one port of the Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.ServiceRoutePort")]
#[serde(rename_all = "camelCase")]
pub struct ServiceRoutePort {
    /// port of the Service.
    pub port: i32,
    /// clients by their namespaces: those that have routes of their own, and all others.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub clients: Vec<RouteClients>,
}

/// RouteClients is what the requests of some clients are matched by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.RouteClients")]
#[serde(rename_all = "camelCase")]
pub struct RouteClients {
    /// namespace of the clients; empty for all that have no entry of their own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// matches in the order in which they are tried.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub matches: Vec<GatewayMatch>,
}
