//! What an agent and the proxies of its pods say to each other: a JSON object per line, over a unix socket of each pod.
//!
//! An agent sends everything a proxy must know, as a whole, whenever it changes; the proxy says when it routes by it.
//! Both sides are of one program, but not always of one version: what is not known is passed over.

use std::fmt;
use std::sync::Arc;

use minik8s_meta::mesh::{MeshRouteSpec, MeshServiceSpec};
use minik8s_proxy::Metrics;
use serde::{Deserialize, Serialize};

use crate::spans::ProxySpan;
use crate::tap::{TapEvent, TapFilter};

/// From the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Grows with every change, as long as the agent lives.
    pub version: u64,
    pub routes: Vec<MeshRouteSpec>,
    /// Services with pods of the mesh, with a VirtualService or without.
    #[serde(default)]
    pub services: Vec<MeshServiceSpec>,
    /// What this pod alone is told.
    #[serde(default)]
    pub own: Own,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    #[serde(default)]
    pub inbound: Inbound,
    /// The pod is about to be replaced: the proxy says at once how many connections to it are open.
    #[serde(default)]
    pub draining: bool,
    /// The pod's namespace, whose routes it goes by.
    #[serde(default)]
    pub namespace: String,
    /// Somebody collects spans: of so many of the requests that come without a trace, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_ratio: Option<f64>,
    /// The agent's own program, as [`crate::program`] tells them apart: a proxy of another is replaced by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Requests that somebody wants to see: those that any of these matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taps: Vec<TapFilter>,
}

impl Own {
    /// What of it may be written to a disk: no key, and nothing that is about a moment.
    pub fn lasting(&self) -> Own {
        Own { inbound: self.inbound.clone(), namespace: self.namespace.clone(), ..Own::default() }
    }
}

/// By what a pod proves who it is, and knows the others.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Its own certificate, then that of the authority.
    pub certificates: String,
    pub key: String,
}

/// The key is nobody's to read.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Who may call the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbound {
    /// Whoever does not prove who they are is not let in.
    pub strict: bool,
    #[serde(default)]
    pub policies: Vec<Policy>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Namespace and name.
    pub name: String,
    pub deny: bool,
    pub dry_run: bool,
    pub rules: Vec<PolicyRule>,
}

/// Lists that are empty match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Namespace and name.
    pub accounts: Vec<String>,
    pub namespaces: Vec<String>,
    pub methods: Vec<String>,
    pub paths: Vec<String>,
    pub ports: Vec<u16>,
}

/// From a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// From now on new requests go by this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
    /// Since the proxy was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestCount>,
    /// How long answers took, since the proxy was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<Durations>,
    /// Connections to the pod, and what policies said of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<InboundCount>,
    /// Connections to the pod that are open, where the agent has asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<u64>,
    /// Requests that are told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<ProxySpan>,
    /// Requests that somebody wants to see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tapped: Vec<TapEvent>,
    /// How many more there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tap_dropped: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Report {
    /// What a proxy has counted of what it sends.
    pub fn of(metrics: &Metrics) -> Self {
        let counts = metrics.counts().into_iter().filter(|(label, _, _)| !label.is_empty());
        let one = |(label, code, count): (Arc<str>, u16, u64)| RequestCount {
            service: label.to_string(),
            code,
            count,
        };
        let mut requests: Vec<RequestCount> = counts.map(one).collect();
        requests.sort();
        let took = metrics.durations().into_iter().filter(|(label, _, _)| !label.is_empty());
        let mut durations: Vec<Durations> = took
            .map(|(label, buckets, nanoseconds)| Durations {
                service: label.to_string(),
                buckets,
                nanoseconds,
            })
            .collect();
        durations.sort();
        Report { requests, durations, ..Report::default() }
    }
}

/// Requests to a Service that were answered with a code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestCount {
    pub service: String,
    pub code: u16,
    pub count: u64,
}

/// How long answers of a Service took, in the buckets of [`minik8s_proxy::Metrics`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Durations {
    pub service: String,
    pub buckets: Vec<u64>,
    pub nanoseconds: u64,
}

/// How often something befell what came to the pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InboundCount {
    /// One of [`crate::sidecar`]'s own words, never a client's.
    pub what: String,
    /// The policy, if it was one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
    pub count: u64,
}
