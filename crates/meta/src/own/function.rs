//! The fields of a Function, and of the two objects by which the control plane and the routers of the nodes agree on its
//! instances.
//!
//! Users write Functions. FunctionEndpoints are written by the function controller and read by every router;
//! FunctionDemands are written by routers, one per function and node, and read by the controller. Both are of a group of
//! their own, which no role of users may write: whoever writes endpoints says where routers connect to.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::destination::{self, Destination};
use crate::own::{api_version, kind};
use crate::served_type;

/// The label of all that belongs to a function: its pods and the ConfigMaps of its revisions.
pub const FUNCTION_LABEL: &str = "minik8s.io/function";
/// Which revision a pod or ConfigMap is of.
pub const REVISION_LABEL: &str = "minik8s.io/function-revision";
/// The number of a revision, on its ConfigMap.
pub const NUMBER_ANNOTATION: &str = "minik8s.io/function-revision-number";
/// The key of a revision's ConfigMap that has the spec, without code.
pub const SPEC_KEY: &str = "spec.json";
/// On the ConfigMap of a revision and on pods: the hash of what the revision's dependencies are fetched by.
pub const BUILD_LABEL: &str = "minik8s.io/function-build";
/// On the ConfigMap of a revision: the image with its dependencies, once they are in the registry.
pub const DEPENDENCIES_ANNOTATION: &str = "minik8s.io/function-dependencies";
/// On a pod that fetched dependencies: why the server could not take them.
pub const BUILD_FAILURE_ANNOTATION: &str = "minik8s.io/function-build-failure";
/// What repositories with dependencies are called, before the hash of what they are fetched by. The server alone writes
/// them, and removes what no revision uses.
pub const DEPENDENCIES_REPOSITORY: &str = "function-dependencies.";
/// On the ConfigMap of a revision: the image with its code, once that is in the registry.
pub const CODE_ANNOTATION: &str = "minik8s.io/function-code";
/// What repositories with code are called, before the function's name, likewise: a node reads no more than its pods' own.
pub const CODE_REPOSITORY: &str = "function-code.";
/// The ConfigMap with settings for builds, in a namespace for its own, in kube-system for all.
pub const BUILD_SETTINGS: &str = "function-builds";
/// Where instances listen.
pub const PORT: u16 = 8080;
/// Whether the newest revision has been imported and answers.
pub const REVISION_READY: &str = "RevisionReady";
/// Whether instances can be started.
pub const ACTIVE: &str = "Active";
/// Whether every revision has its part of the requests.
pub const TRAFFIC: &str = "TrafficSplit";

/// What comes with the program for one language.
#[derive(Debug, PartialEq, Eq)]
pub struct Runtime {
    /// As `spec.runtime` names it.
    pub name: &'static str,
    /// As others call it. The version is that of the nodes' packages, whatever the name says.
    pub aliases: &'static [&'static str],
    /// The image, which every node makes for itself from its own packages.
    pub image: &'static str,
    /// The file that inline source becomes.
    pub file: &'static str,
    /// Debian packages that the image is made of, with all that they depend on.
    pub packages: &'static [&'static str],
    /// The image that fetches what code depends on: the same with the language's package client.
    pub builder: &'static str,
}

/// Raise the tags whenever the files in `kubelet/src/image/runtimes` change: a test there asks for it.
pub const RUNTIMES: &[Runtime] = &[
    Runtime {
        name: "python3.11",
        aliases: &["python3", "python"],
        image: "minik8s.io/function-python:3.11-7",
        file: "main.py",
        packages: &["python3.11", "ca-certificates"],
        builder: "minik8s.io/function-python-builder:3.11-2",
    },
    Runtime {
        name: "nodejs",
        aliases: &["nodejs18", "nodejs20", "node"],
        image: "minik8s.io/function-nodejs:5",
        file: "main.js",
        packages: &["nodejs", "ca-certificates"],
        builder: "minik8s.io/function-nodejs-builder:2",
    },
];

/// The runtime of that name.
pub fn runtime(name: &str) -> Option<&'static Runtime> {
    RUNTIMES.iter().find(|runtime| runtime.name == name || runtime.aliases.contains(&name))
}

/// All names that a runtime may be called by, its own first.
pub fn runtime_names() -> Vec<&'static str> {
    RUNTIMES
        .iter()
        .flat_map(|runtime| [runtime.name].into_iter().chain(runtime.aliases.iter().copied()))
        .collect()
}

/// Function is code that is called by HTTP. It has instances while there are requests, and none while there are not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Function")]
#[serde(rename_all = "camelCase")]
pub struct Function {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<Function>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<Function>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: FunctionSpec,
    /// status is what the cluster has made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FunctionStatus>,
}

/// FunctionSpec is the code and how it is run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionSpec")]
#[serde(rename_all = "camelCase")]
pub struct FunctionSpec {
    /// runtime is the language: python3.11 (python3, python) or nodejs (nodejs18, nodejs20, node), in the version that the
    /// nodes have. It needs code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// image is a container that listens on $PORT, instead of runtime and code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// handler is MODULE.FUNCTION. By default it is found: the modules main, handler, index, app, and in them the
    /// functions main, handler, run, app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// code is what the runtime runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<FunctionCode>,
    /// dependencies is an image with the packages that the code imports. Without it, what the requirements.txt or
    /// package.json of an archive asks for is fetched by a pod of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<String>,
    /// env are variables of the instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvVar>,
    /// envFrom takes variables from ConfigMaps and Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvFromSource>,
    /// volumes are claims that instances can read and write, as all that share them can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<FunctionVolume>,
    /// resources of each instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// serviceAccountName gives instances the token of a ServiceAccount. Without it they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// concurrency is how many requests an instance handles at once; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// timeoutSeconds is how long a request may take; 60 by default, 3600 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// cancel ends the worker of a request 5 seconds after its caller has gone, if the runtime is ours and the call has no
    /// key by which its answer is asked for again. By default it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// scale bounds the number of instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<FunctionScale>,
    /// queue bounds how many requests wait for an instance, and how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<FunctionQueue>,
    /// traffic gives older revisions a part of the requests; the newest that serves gets the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<FunctionTraffic>,
    /// async is how calls are made that nobody waits for, and who hears of their end.
    #[serde(default, rename = "async", skip_serializing_if = "Option::is_none")]
    pub async_calls: Option<FunctionAsync>,
}

/// FunctionTraffic is the part of the requests that a revision gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionTraffic")]
#[serde(rename_all = "camelCase")]
pub struct FunctionTraffic {
    /// revision is its number.
    pub revision: i64,
    /// percent of the requests.
    pub percent: i32,
}

/// FunctionVolume is a claim in the file system of the instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionVolume")]
#[serde(rename_all = "camelCase")]
pub struct FunctionVolume {
    /// claim is a PersistentVolumeClaim of the namespace.
    pub claim: String,
    /// path where instances see it.
    pub path: String,
    /// readOnly instances cannot write to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// FunctionAsync is how calls are made that nobody waits for, where the call itself does not say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionAsync")]
#[serde(rename_all = "camelCase")]
pub struct FunctionAsync {
    /// retries after a first attempt that failed; 2 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<i32>,
    /// maxAgeSeconds after a call was accepted it is not tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<i32>,
    /// onSuccess gets the call and its result: a function's name, {function: NAME} or {workflow: NAME}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "destination::schema")]
    pub on_success: Option<Destination>,
    /// onFailure gets the call and its error after the last attempt: likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "destination::schema")]
    pub on_failure: Option<Destination>,
}

/// FunctionCode is the code itself: exactly one of its fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionCode")]
#[serde(rename_all = "camelCase")]
pub struct FunctionCode {
    /// source is the text of one file, 256 KiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// zip is an archive of files in base64, 700 KiB at most before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zip: Option<String>,
    /// image of the registry has a larger archive: registry.minik8s.local/NAMESPACE/function-code.NAME@sha256:DIGEST, as
    /// `minik8s function` pushes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// FunctionScale bounds the number of instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionScale")]
#[serde(rename_all = "camelCase")]
pub struct FunctionScale {
    /// min instances, also while nobody calls; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i32>,
    /// minActive instances while there are requests, and for idleSeconds after the last; none of its own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_active: Option<i32>,
    /// max instances; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i32>,
    /// idleSeconds without a request end the last instance; 60 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<i32>,
    /// scaleDownSeconds is how long there must have been fewer requests before an instance but the last ends; 30 by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down_seconds: Option<i32>,
    /// targetUtilization is how much of the instances' concurrency the most requests at once may take before there is another
    /// instance, in percent; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_utilization: Option<i32>,
}

/// FunctionQueue bounds how many requests wait for an instance, and how long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionQueue")]
#[serde(rename_all = "camelCase")]
pub struct FunctionQueue {
    /// seconds that a request waits; 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i32>,
    /// max requests that wait on each node; 10 × concurrency × scale.max by default, and 10,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i32>,
}

/// FunctionStatus is what the cluster has made of a Function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionStatus")]
#[serde(rename_all = "camelCase")]
pub struct FunctionStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// revision is the number of the newest revision.
    #[serde(default)]
    pub revision: i64,
    /// servingRevision is the number of the revision that gets requests; 0 while none does.
    #[serde(default)]
    pub serving_revision: i64,
    /// serving is the hash of that revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<String>,
    /// desired instances.
    #[serde(default)]
    pub desired: i32,
    /// replicas are the instances there are.
    #[serde(default)]
    pub replicas: i32,
    /// readyReplicas are those that get requests.
    #[serde(default)]
    pub ready_replicas: i32,
    /// url by which pods and nodes call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// failure is the last start that failed, until one succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FunctionFailure>,
    /// conditions: RevisionReady (the newest revision was imported and answers) and Active (instances can be started).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// FunctionFailure is why an instance could not be started, or ended by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.FunctionFailure")]
#[serde(rename_all = "camelCase")]
pub struct FunctionFailure {
    /// revision is the hash of the revision.
    pub revision: String,
    /// count of failures in a row.
    pub count: i32,
    /// at is when the last one was noticed.
    pub at: Time,
    /// reason in one word.
    pub reason: String,
    /// message has the last lines that the instance wrote.
    pub message: String,
}

/// FunctionEndpoints tells routers the instances of a Function of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.FunctionEndpoints")]
#[serde(rename_all = "camelCase")]
pub struct FunctionEndpoints {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<FunctionEndpoints>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<FunctionEndpoints>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what a router must know.
    #[serde(default)]
    pub spec: FunctionEndpointsSpec,
}

/// FunctionEndpointsSpec is what a router must know of a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.FunctionEndpointsSpec")]
#[serde(rename_all = "camelCase")]
pub struct FunctionEndpointsSpec {
    /// uid of the Function.
    pub uid: String,
    /// concurrency of each instance.
    pub concurrency: u32,
    /// timeoutSeconds of a request.
    pub timeout_seconds: u32,
    /// queueSeconds that a request waits.
    pub queue_seconds: u32,
    /// queueMax requests that wait on a node.
    pub queue_max: u32,
    /// idleSeconds after which a router wants no instance any more.
    pub idle_seconds: u32,
    /// scaleDownSeconds during which a router remembers how many it wanted.
    pub scale_down_seconds: u32,
    /// instances that get requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<FunctionInstance>,
    /// traffic is the part of the requests that each revision gets, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<FunctionShare>,
    /// problem is why there is no instance although there should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<FunctionProblem>,
    /// attempts at most at a call that nobody waits for and that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// maxAgeSeconds after which such a call is not tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u32>,
    /// runtime of its code, for which nodes keep started sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
}

/// FunctionShare is the part of the requests that a revision gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.FunctionShare")]
#[serde(rename_all = "camelCase")]
pub struct FunctionShare {
    /// revision is its hash.
    pub revision: String,
    /// percent of the requests.
    pub percent: u32,
}

/// FunctionInstance is a pod that serves requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.FunctionInstance")]
#[serde(rename_all = "camelCase")]
pub struct FunctionInstance {
    /// pod is its name.
    pub pod: String,
    /// ip and port 8080 are where it listens.
    pub ip: String,
    /// node that it runs on.
    pub node: String,
    /// ready says that it has answered. One that has not yet listens soon.
    pub ready: bool,
    /// revision is its hash.
    #[serde(default)]
    pub revision: String,
}

/// FunctionProblem is why a function cannot be called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.FunctionProblem")]
#[serde(rename_all = "camelCase")]
pub struct FunctionProblem {
    /// reason in one word.
    pub reason: String,
    /// message says what to do about it.
    pub message: String,
}

/// FunctionDemand tells how many requests of a function the router of one node has. It is called FUNCTION.NODE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.FunctionDemand")]
#[serde(rename_all = "camelCase")]
pub struct FunctionDemand {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<FunctionDemand>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<FunctionDemand>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is the demand.
    #[serde(default)]
    pub spec: FunctionDemandSpec,
}

/// FunctionDemandSpec is the demand of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.FunctionDemandSpec")]
#[serde(rename_all = "camelCase")]
pub struct FunctionDemandSpec {
    /// requests at once for which there must be instances.
    pub requests: u32,
    /// at is when the router said so; it repeats itself while there are requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

served_type!(Function: "minik8s.io" "v1" "Function" "functions" NamespaceResourceScope);
served_type!(FunctionEndpoints: "internal.minik8s.io" "v1" "FunctionEndpoints" "functionendpoints" NamespaceResourceScope);
served_type!(FunctionDemand: "internal.minik8s.io" "v1" "FunctionDemand" "functiondemands" NamespaceResourceScope);

macro_rules! empty {
    ($($type:ident $(, $status:ident)?);+) => {
        $(impl Default for $type {
            fn default() -> Self {
                $type {
                    api_version: api_version::<$type>(),
                    kind: kind::<$type>(),
                    metadata: ObjectMeta::default(),
                    spec: Default::default(),
                    $($status: None,)?
                }
            }
        })+
    };
}
empty!(Function, status; FunctionEndpoints; FunctionDemand);

impl FunctionSpec {
    pub fn concurrency(&self) -> u32 {
        positive(self.concurrency, 1).max(1)
    }

    pub fn timeout_seconds(&self) -> u32 {
        positive(self.timeout_seconds, 60).max(1)
    }

    pub fn min(&self) -> u32 {
        positive(self.scale.as_ref().and_then(|scale| scale.min), 0)
    }

    /// While there are requests.
    pub fn min_active(&self) -> u32 {
        positive(self.scale.as_ref().and_then(|scale| scale.min_active), 0)
    }

    pub fn max(&self) -> u32 {
        positive(self.scale.as_ref().and_then(|scale| scale.max), 20).max(1)
    }

    pub fn idle_seconds(&self) -> u32 {
        positive(self.scale.as_ref().and_then(|scale| scale.idle_seconds), 60)
    }

    pub fn scale_down_seconds(&self) -> u32 {
        positive(self.scale.as_ref().and_then(|scale| scale.scale_down_seconds), 30)
    }

    /// Instances for so many requests at once, without bounds.
    pub fn instances_for(&self, requests: u64) -> u64 {
        let percent = positive(self.scale.as_ref().and_then(|scale| scale.target_utilization), 100);
        let places = u64::from(self.concurrency()) * u64::from(percent.clamp(1, 100));
        requests.saturating_mul(100).div_ceil(places)
    }

    pub fn queue_seconds(&self) -> u32 {
        positive(self.queue.as_ref().and_then(|queue| queue.seconds), 30)
    }

    pub fn queue_max(&self) -> u32 {
        let usual = (10 * self.concurrency()).saturating_mul(self.max()).min(10_000);
        positive(self.queue.as_ref().and_then(|queue| queue.max), i32::try_from(usual).unwrap_or(10_000))
    }
}

fn positive(value: Option<i32>, usual: i32) -> u32 {
    u32::try_from(value.unwrap_or(usual)).unwrap_or_default()
}
