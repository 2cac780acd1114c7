//! Fields that several kinds have in common: references, and what routes say of their parents.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// ParentReference names the Gateway, ListenerSet or Service that a route wants to be part of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ParentReference")]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// group of the parent; "gateway.networking.k8s.io" by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// kind of the parent; "Gateway" by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// namespace of the parent; the route's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// name of the parent.
    pub name: String,
    /// sectionName is one listener of the parent; all of them by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// port narrows the listeners to those of this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// BackendReference names a Service and a port of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.BackendObjectReference")]
#[serde(rename_all = "camelCase")]
pub struct BackendObjectReference {
    /// group of the backend; core by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// kind of the backend; "Service" by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// name of the backend.
    pub name: String,
    /// namespace of the backend; the route's own by default. Another one must allow it with a ReferenceGrant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// port of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// BackendRef is a backend with its share of the requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.BackendRef")]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    #[serde(flatten)]
    pub object: BackendObjectReference,
    /// weight is the backend's share, in proportion to the others'; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// LocalObjectReference names an object of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.LocalObjectReference")]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectReference {
    /// group of the object.
    #[serde(default)]
    pub group: String,
    /// kind of the object.
    #[serde(default)]
    pub kind: String,
    /// name of the object.
    #[serde(default)]
    pub name: String,
}

/// ObjectReference names an object, maybe of another namespace, which must allow it with a ReferenceGrant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ObjectReference")]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// group of the object; core by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// kind of the object; "Secret" by default where a certificate is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// name of the object.
    #[serde(default)]
    pub name: String,
    /// namespace of the object; that of who refers to it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// NamespaceSelection says from which namespaces others may come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.RouteNamespaces")]
#[serde(rename_all = "camelCase")]
pub struct NamespaceSelection {
    /// from is All, Selector, Same or None.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// selector of namespaces by their labels, where from is Selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// RouteGroupKind is a kind of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.RouteGroupKind")]
#[serde(rename_all = "camelCase")]
pub struct RouteGroupKind {
    /// group of the kind; "gateway.networking.k8s.io" by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// kind of routes.
    #[serde(default)]
    pub kind: String,
}

/// RouteStatus says what each parent has made of a route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.RouteStatus")]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// parents has an entry for every parent that a controller knows.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub parents: Vec<RouteParentStatus>,
}

/// RouteParentStatus says what one parent has made of a route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.RouteParentStatus")]
#[serde(rename_all = "camelCase")]
pub struct RouteParentStatus {
    /// parentRef is the parent as the route names it.
    pub parent_ref: ParentReference,
    /// controllerName of who wrote this.
    #[serde(default)]
    pub controller_name: String,
    /// conditions of the route at this parent.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// GatewayPolicyStatus says what each Gateway has made of a policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.PolicyStatus")]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// ancestors has an entry for every Gateway that the policy has a part in.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ancestors: Vec<PolicyAncestorStatus>,
}

/// PolicyAncestorStatus says what one Gateway has made of a policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.PolicyAncestorStatus")]
#[serde(rename_all = "camelCase")]
pub struct PolicyAncestorStatus {
    /// ancestorRef is the Gateway.
    pub ancestor_ref: ParentReference,
    /// controllerName of who wrote this.
    #[serde(default)]
    pub controller_name: String,
    /// conditions of the policy at this Gateway.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
