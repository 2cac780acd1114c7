//! The fields of a DNS object, as clients see and the components read them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::{api_version, kind};
use crate::served_type;

/// Whether the object's paths are all its own, or an older object had one of them first.
pub const ACCEPTED: &str = "Accepted";
/// Whether every path leads to a Service that answers.
pub const READY: &str = "Ready";

/// DNS gives a host name to the cluster. The name resolves in pods and on nodes, and requests to it reach
/// different Services by the beginning of their path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNS")]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<Dns>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<Dns>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: DnsSpec,
    /// status is what the cluster has made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DnsStatus>,
}

/// DNSSpec is a list of host names with their paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNSSpec")]
#[serde(rename_all = "camelCase")]
pub struct DnsSpec {
    /// rules has an entry for every host name.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["host"]))]
    pub rules: Vec<DnsRule>,
}

/// DNSRule leads the paths of one host name to Services.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNSRule")]
#[serde(rename_all = "camelCase")]
pub struct DnsRule {
    /// host is a name without wildcard, e.g. "shop.example".
    pub host: String,
    /// paths are tried longest first.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    pub paths: Vec<DnsPath>,
}

/// DNSPath leads requests whose path begins so to a Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNSPath")]
#[serde(rename_all = "camelCase")]
pub struct DnsPath {
    /// path begins with "/" and is matched by whole elements: "/a" matches "/a" and "/a/b", not "/ab". The
    /// Service gets the request without it: "/a/b" as "/b". "/" by default.
    #[serde(default = "root")]
    #[schemars(extend("default" = "/"))]
    pub path: String,
    /// backend is who answers.
    pub backend: DnsBackend,
}

/// DNSBackend names who answers requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNSBackend")]
#[serde(rename_all = "camelCase")]
pub struct DnsBackend {
    /// service is a Service in the object's own namespace.
    pub service: DnsService,
}

/// DNSService is one port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNSService")]
#[serde(rename_all = "camelCase")]
pub struct DnsService {
    /// name of the Service.
    pub name: String,
    /// port of the Service, by number or by name.
    pub port: IntOrString,
}

/// DNSStatus says for every path whether it leads anywhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNSStatus")]
#[serde(rename_all = "camelCase")]
pub struct DnsStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// conditions: Accepted (no older object has one of the paths) and Ready (every path leads to a Service that
    /// answers).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// paths in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<DnsPathStatus>,
}

/// DNSPathStatus says whether one path leads anywhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.DNSPathStatus")]
#[serde(rename_all = "camelCase")]
pub struct DnsPathStatus {
    /// host of the rule.
    pub host: String,
    /// path of the rule.
    pub path: String,
    /// target is the Service and its port.
    pub target: String,
    /// ready says that requests are answered.
    pub ready: bool,
    /// reason, in one word, why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// message says what is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

served_type!(Dns: "minik8s.io" "v1" "DNS" "dns" NamespaceResourceScope);

impl Default for Dns {
    fn default() -> Self {
        Dns {
            api_version: api_version::<Dns>(),
            kind: kind::<Dns>(),
            metadata: ObjectMeta::default(),
            spec: DnsSpec::default(),
            status: None,
        }
    }
}

impl Dns {
    /// Every host name, path and Service of the spec.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &DnsPath)> {
        self.spec.rules.iter().flat_map(|rule| rule.paths.iter().map(|path| (rule.host.as_str(), path)))
    }
}

fn root() -> String {
    "/".to_owned()
}
