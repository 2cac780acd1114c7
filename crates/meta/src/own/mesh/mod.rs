//! The fields of the service mesh's kinds, and the names by which server, agents and sidecars agree.

mod identity;
mod internal;
mod progress;
mod resilience;
mod routed;
mod traffic;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use identity::Identity;
pub use internal::{
    MeshAck, MeshAckSpec, MeshEndpoint, MeshGateway, MeshMirror, MeshPort, MeshRoute, MeshRouteSpec,
    MeshRule, MeshService, MeshServiceSpec, MeshTarget,
};
pub use progress::{MeshProgress, MeshProgressSpec, MeshUpdate, RequestTotals};
pub use resilience::{Abort, Delay, Fault, Mirror, Outlier, Retries};
pub use routed::MeshRouted;
pub use traffic::MeshTraffic;

use crate::own::{api_version, kind};
use crate::served_type;

/// The container that every pod of the mesh has.
pub const SIDECAR: &str = "minik8s-proxy";
const SIDECAR_REPOSITORY: &str = "minik8s.io/sidecar";
/// Its image, which a node makes of its own program.
pub const SIDECAR_IMAGE: &str = concat!("minik8s.io/sidecar:", env!("CARGO_PKG_VERSION"));
/// Whom it runs as. Its own connections are told from the pod's by this.
pub const SIDECAR_UID: i64 = 1337;
/// Where connections that the pod makes are led to.
pub const OUTBOUND_PORT: u16 = 15001;
/// Where connections to the pod are led to.
pub const INBOUND_PORT: u16 = 15006;
/// The folder in the sidecar with the agent's sockets: the one for what is to be known, and the one over which the
/// listening sockets are handed.
pub const SOCKET_DIR: &str = "/run/minik8s-mesh";
pub const SOCKET: &str = "agent";
pub const LISTENERS_SOCKET: &str = "listeners";
/// Beside the sockets, for agents: the file of the pod's network namespace.
pub const NETNS_FILE: &str = "netns";
/// Beside the sockets: what the proxy was told last, without its key, for one that starts while no agent tells it anything.
pub const CONFIG_FILE: &str = "config";
/// In the place of a pod, among proxies that are waited for.
pub const NODE_PROXY: &str = "the node's own proxy";
/// Who signs the identities of pods.
pub const SIGNER: &str = "minik8s.io/mesh";
/// A variable of the sidecar: it takes what comes to the pod, too. Those of older versions took only what pods send.
pub const INBOUND_ENV: &str = "MINIK8S_MESH_INBOUND";
/// On a pod or a namespace, `disabled` keeps pods out of the mesh.
pub const MESH_LABEL: &str = "minik8s.io/mesh";

/// Whether the object is valid together with others: no older one has its Service's port.
pub const ACCEPTED: &str = "Accepted";
/// Whether the Service, its port and all subsets are there, with pods.
pub const RESOLVED_REFS: &str = "ResolvedRefs";
/// Whether every running proxy routes by the object as it is now.
pub const PROGRAMMED: &str = "Programmed";

/// VirtualService leads the requests to one port of a Service to subsets of its pods: by weight, or by regular
/// expressions on URL and headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.VirtualService")]
#[serde(rename_all = "camelCase")]
pub struct VirtualService {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<VirtualService>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<VirtualService>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: VirtualServiceSpec,
    /// status is what the cluster has made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VirtualServiceStatus>,
}

/// VirtualServiceSpec says which subset gets which requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.VirtualServiceSpec")]
#[serde(rename_all = "camelCase")]
pub struct VirtualServiceSpec {
    /// serviceRef is a Service of the same namespace.
    pub service_ref: String,
    /// port of the Service.
    pub port: i32,
    /// subsets either all have weights, or are tried in order: the first whose url and headers match gets the request,
    /// and one without both gets the rest.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub subsets: Vec<SubsetRoute>,
    /// timeoutSeconds until the answer must have begun; 60 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// retries of requests that failed and can be repeated without harm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// mirror sends copies of requests to another subset, whose answers nobody sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Mirror>,
    /// fault makes requests fail, to see how clients bear it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// outlier keeps requests from pods that fail again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlier: Option<Outlier>,
}

/// SubsetRoute says which requests one subset gets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SubsetRoute")]
#[serde(rename_all = "camelCase")]
pub struct SubsetRoute {
    /// name of a Subset of the same namespace.
    pub name: String,
    /// weight is the subset's share of the requests, in proportion to the others'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// url is a regular expression that path and query must have a match of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// headers have a regular expression each, all of which must have a match in the header of that name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// VirtualServiceStatus says who routes by the object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.VirtualServiceStatus")]
#[serde(rename_all = "camelCase")]
pub struct VirtualServiceStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// proxies that run, and those of them that route by it.
    #[serde(default)]
    pub proxies: ProxyCounts,
    /// subsets in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<SubsetStatus>,
    /// conditions: Accepted, ResolvedRefs, and Programmed, which is true when every running proxy routes by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// ProxyCounts counts proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.ProxyCounts")]
#[serde(rename_all = "camelCase")]
pub struct ProxyCounts {
    /// total that run.
    pub total: i32,
    /// applied is how many of them route by the object as it is.
    pub applied: i32,
    /// waitingFor names those that do not yet, ten at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<WaitingProxy>,
}

/// WaitingProxy is a proxy that does not route by the object yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WaitingProxy")]
#[serde(rename_all = "camelCase")]
pub struct WaitingProxy {
    /// pod is its namespace and name.
    pub pod: String,
    /// node that it runs on.
    pub node: String,
}

/// SubsetStatus is what a subset has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SubsetStatus")]
#[serde(rename_all = "camelCase")]
pub struct SubsetStatus {
    /// name of the Subset.
    pub name: String,
    /// ready pods, which get requests.
    pub ready: i32,
    /// share of the requests by weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
}

/// Subset is some of a Service's pods, by name or by labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Subset")]
#[serde(rename_all = "camelCase")]
pub struct Subset {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<Subset>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<Subset>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is which pods they are.
    #[serde(default)]
    pub spec: SubsetSpec,
}

/// SubsetSpec is either names of pods or a selector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SubsetSpec")]
#[serde(rename_all = "camelCase")]
pub struct SubsetSpec {
    /// pods by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub pods: Vec<String>,
    /// selector of the pods' labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// What the agent of pods asks of the agent of the mesh, for a pod with a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeshStep {
    /// The pod's network namespace (a file) is there, and nothing runs in it yet.
    Start { uid: String, pod: String, dir: std::path::PathBuf, netns: std::path::PathBuf },
    /// The proxy was started; answered when it routes.
    Ready { uid: String },
    /// The pod is gone.
    End { uid: String },
}

served_type!(VirtualService: "minik8s.io" "v1" "VirtualService" "virtualservices" NamespaceResourceScope);
served_type!(Subset: "minik8s.io" "v1" "Subset" "subsets" NamespaceResourceScope);

impl Default for VirtualService {
    fn default() -> Self {
        VirtualService {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: VirtualServiceSpec::default(),
            status: None,
        }
    }
}

impl Default for Subset {
    fn default() -> Self {
        Subset {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: SubsetSpec::default(),
        }
    }
}

/// Whether an image is the proxy's: pods that are older than their node's program have that of another version.
pub fn is_sidecar_image(image: Option<&str>) -> bool {
    image.and_then(|image| image.strip_prefix(SIDECAR_REPOSITORY)).is_some_and(|tag| tag.starts_with(':'))
}

/// Whether a pod has a proxy that takes what comes to it.
pub fn takes_inbound(pod: &k8s_openapi::api::core::v1::PodSpec) -> bool {
    let mut init = pod.init_containers.iter().flatten();
    let proxy = init.find(|one| one.name == SIDECAR && is_sidecar_image(one.image.as_deref()));
    proxy.is_some_and(|one| one.env.iter().flatten().any(|variable| variable.name == INBOUND_ENV))
}
