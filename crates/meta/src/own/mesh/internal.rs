//! The kinds by which controller and agents of the mesh agree. Users read them to see what was made of their objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Abort, Delay, MeshUpdate, Outlier, Retries};
use crate::gateway::{GatewayRule, RouteClients};
use crate::own::{api_version, kind};
use crate::served_type;

/// MeshRoute tells proxies what was made of the VirtualService of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshRoute")]
#[serde(rename_all = "camelCase")]
pub struct MeshRoute {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<MeshRoute>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<MeshRoute>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what a proxy must know.
    #[serde(default)]
    pub spec: MeshRouteSpec,
}

/// MeshRouteSpec is where connections to some addresses lead.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshRouteSpec")]
#[serde(rename_all = "camelCase")]
pub struct MeshRouteSpec {
    /// uid of the VirtualService.
    pub uid: String,
    /// revision changes with the VirtualService and its Subsets, not with endpoints.
    pub revision: String,
    /// service is namespace and name of the Service.
    pub service: String,
    /// addresses with ports at which pods call it.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<String>,
    /// opaque connections are not looked into: each goes to one endpoint as a whole.
    #[serde(default)]
    pub opaque: bool,
    /// grpc connections are looked into, request by request, where they are HTTP/2; proxies of older versions take them as
    /// opaque.
    #[serde(default, skip_serializing_if = "is_false")]
    pub grpc: bool,
    /// rules in the order in which they are tried.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<MeshRule>,
    /// timeoutSeconds until an answer must have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// retries of requests that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// mirror gets copies of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<MeshMirror>,
    /// abort answers some requests with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// delay holds some requests back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// outlier keeps requests from endpoints that fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlier: Option<Outlier>,
    /// gateway is what routes of the Gateway API say; then there are no other rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<MeshGateway>,
}

/// MeshGateway is what HTTPRoutes and GRPCRoutes say of one port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshGateway")]
#[serde(rename_all = "camelCase")]
pub struct MeshGateway {
    /// clients by their namespaces: those that have routes of their own, and all others.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub clients: Vec<RouteClients>,
    /// rules that matches name by their number.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<GatewayRule>,
    /// targets that rules name.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub targets: Vec<MeshTarget>,
}

/// MeshTarget is who is behind one port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshTarget")]
#[serde(rename_all = "camelCase")]
pub struct MeshTarget {
    /// namespace of the Service.
    pub namespace: String,
    /// service is its name.
    pub service: String,
    /// port of the Service.
    pub port: i32,
    /// endpoints that are ready.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub endpoints: Vec<MeshEndpoint>,
}

/// MeshMirror gets copies of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshMirror")]
#[serde(rename_all = "camelCase")]
pub struct MeshMirror {
    /// percent of the requests.
    pub percent: i32,
    /// endpoints that get them.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub endpoints: Vec<MeshEndpoint>,
}

/// MeshRule leads the requests that it matches to endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshRule")]
#[serde(rename_all = "camelCase")]
pub struct MeshRule {
    /// url is a regular expression for path and query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// headers have a regular expression each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// endpoints that get the requests.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub endpoints: Vec<MeshEndpoint>,
}

/// MeshEndpoint is a pod that gets requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshEndpoint")]
#[serde(rename_all = "camelCase")]
pub struct MeshEndpoint {
    /// address with port.
    pub address: String,
    /// pod that listens there.
    pub pod: String,
    /// weight in proportion to the rule's other endpoints.
    pub weight: u64,
    /// serviceAccount (namespace and name) that its proxy proves; without one the pod is not of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// subset of the VirtualService that it gets requests as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
}

/// MeshService tells proxies the endpoints of the Service of the same name, and who they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshService")]
#[serde(rename_all = "camelCase")]
pub struct MeshService {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<MeshService>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<MeshService>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what a proxy must know.
    #[serde(default)]
    pub spec: MeshServiceSpec,
}

/// MeshServiceSpec is who is behind a Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshServiceSpec")]
#[serde(rename_all = "camelCase")]
pub struct MeshServiceSpec {
    /// service is namespace and name.
    pub service: String,
    /// ports of the Service.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<MeshPort>,
    /// update is the RollingUpdate that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<MeshUpdate>,
}

/// MeshPort is one port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshPort")]
#[serde(rename_all = "camelCase")]
pub struct MeshPort {
    /// addresses with ports at which pods call it; none if pods are called by their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<String>,
    /// http says that requests may be looked at one by one.
    #[serde(default)]
    pub http: bool,
    /// grpc says that requests come over HTTP/2, and each may go to another endpoint.
    #[serde(default, skip_serializing_if = "is_false")]
    pub grpc: bool,
    /// endpoints that are ready.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub endpoints: Vec<MeshEndpoint>,
}

/// MeshAck says which revision of a MeshRoute or MeshPolicy the proxies of one node have applied. It is called OBJECT.NODE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshAck")]
#[serde(rename_all = "camelCase")]
pub struct MeshAck {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<MeshAck>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<MeshAck>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what was applied.
    #[serde(default)]
    pub spec: MeshAckSpec,
}

/// MeshAckSpec is what the proxies of one node have applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshAckSpec")]
#[serde(rename_all = "camelCase")]
pub struct MeshAckSpec {
    /// revision of the object.
    pub revision: String,
    /// waiting are pods (namespace and name) whose proxies have not applied it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub waiting: Vec<String>,
}

served_type!(MeshRoute: "internal.minik8s.io" "v1" "MeshRoute" "meshroutes" NamespaceResourceScope);
served_type!(MeshService: "internal.minik8s.io" "v1" "MeshService" "meshservices" NamespaceResourceScope);
served_type!(MeshAck: "internal.minik8s.io" "v1" "MeshAck" "meshacks" NamespaceResourceScope);

fn is_false(said: &bool) -> bool {
    !said
}

impl Default for MeshRoute {
    fn default() -> Self {
        MeshRoute {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: MeshRouteSpec::default(),
        }
    }
}

impl Default for MeshAck {
    fn default() -> Self {
        MeshAck {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: MeshAckSpec::default(),
        }
    }
}

impl Default for MeshService {
    fn default() -> Self {
        MeshService {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: MeshServiceSpec::default(),
        }
    }
}
