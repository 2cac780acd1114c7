//! ReferenceGrant and BackendTLSPolicy: what backends allow, and how they are spoken to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{LocalObjectReference, PolicyStatus};
use crate::gateway_kind;

gateway_kind! {
    /// ReferenceGrant lets objects of other namespaces refer to objects of this one.
    ReferenceGrant("io.k8s.networking.gateway.v1.ReferenceGrant", "ReferenceGrant", "referencegrants", NamespaceResourceScope):
        ReferenceGrantSpec, NoStatus
}

gateway_kind! {
    /// BackendTLSPolicy says that Gateways speak TLS with a Service, and how they know it.
    BackendTlsPolicy("io.k8s.networking.gateway.v1.BackendTLSPolicy", "BackendTLSPolicy", "backendtlspolicies", NamespaceResourceScope):
        BackendTlsPolicySpec, PolicyStatus
}

/// NoStatus: nobody writes about grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.NoStatus")]
pub struct NoStatus {}

/// ReferenceGrantSpec says who may refer to what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ReferenceGrantSpec")]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantSpec {
    /// from whom.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub from: Vec<ReferenceGrantFrom>,
    /// to what.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub to: Vec<ReferenceGrantTo>,
}

/// ReferenceGrantFrom is a kind of objects in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ReferenceGrantFrom")]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantFrom {
    /// group of the kind.
    #[serde(default)]
    pub group: String,
    /// kind of who refers.
    pub kind: String,
    /// namespace of who refers.
    pub namespace: String,
}

/// ReferenceGrantTo is a kind of objects in the grant's namespace, or one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.ReferenceGrantTo")]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantTo {
    /// group of the kind; core is empty.
    #[serde(default)]
    pub group: String,
    /// kind of what is referred to.
    pub kind: String,
    /// name of the one object; all of the kind by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// BackendTLSPolicySpec says how TLS is spoken with which Services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.BackendTLSPolicySpec")]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// targetRefs are Services of the same namespace, or single ports of them.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub target_refs: Vec<PolicyTarget>,
    /// validation of the backend's certificate.
    #[serde(default)]
    pub validation: BackendTlsValidation,
    /// options of other controllers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// PolicyTarget is a Service, or one port of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.LocalPolicyTargetReferenceWithSectionName")]
#[serde(rename_all = "camelCase")]
pub struct PolicyTarget {
    /// group of the target; core is empty.
    #[serde(default)]
    pub group: String,
    /// kind of the target.
    pub kind: String,
    /// name of the target.
    pub name: String,
    /// sectionName is the name of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// BackendTLSValidation says how a backend's certificate is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.BackendTLSPolicyValidation")]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsValidation {
    /// caCertificateRefs are ConfigMaps of the same namespace with a "ca.crt".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ca_certificate_refs: Vec<LocalObjectReference>,
    /// wellKnownCACertificates is System for the authorities that nodes trust.
    #[serde(default, rename = "wellKnownCACertificates", skip_serializing_if = "Option::is_none")]
    pub well_known_ca_certificates: Option<String>,
    /// hostname is asked for by SNI, and must be in the certificate unless subjectAltNames are given.
    #[serde(default)]
    pub hostname: String,
    /// subjectAltNames, one of which the certificate must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// SubjectAltName is a name in a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.SubjectAltName")]
#[serde(rename_all = "camelCase")]
pub struct SubjectAltName {
    /// type is Hostname or URI.
    #[serde(rename = "type")]
    pub type_: String,
    /// hostname where that is the type.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// uri where that is the type.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uri: String,
}
