//! CertificateSigningRequests: approves what a node may ask for by itself, signs what is approved, and
//! removes what is over.
//!
//! Approving is deciding (see `decide`); signing is an [`Authority`]'s, whose keys this crate never sees. A
//! request that no rule speaks for waits for a person, as does everything of signers that are not ours.

mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Target, Watches, key_of};
use serde_json::json;

use self::decide::{Decision, Known, decide};

/// The keys of the cluster, as far as requests are concerned.
pub trait Authority: Send + Sync + 'static {
    /// What is asked for; `Err` tells why it will never be signed.
    fn read(&self, spec: &CertificateSigningRequestSpec) -> Result<Asked, String>;

    /// The certificate (PEM).
    fn sign(&self, spec: &CertificateSigningRequestSpec, now: Timestamp) -> Result<String, String>;

    /// Names and addresses that only an API server may show.
    fn reserved(&self) -> (BTreeSet<String>, BTreeSet<IpAddr>);
}

/// What a well-formed request asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The node that the certificate is for, if it is for one.
    pub node: Option<String>,
    pub names: BTreeSet<String>,
    pub addresses: BTreeSet<IpAddr>,
    /// Who a pod is to be, in the mesh.
    pub identity: Option<String>,
}

pub struct Certificates {
    pub authority: Arc<dyn Authority>,
}

pub struct Observed {
    request: Arc<CertificateSigningRequest>,
    /// Nodes that have been seen alive, with their addresses.
    nodes: BTreeMap<String, Vec<String>>,
    /// Service accounts (namespace and name) of the pods of the node that asks.
    accounts: BTreeSet<(String, String)>,
}

impl Controller for Certificates {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "certificate-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<CertificateSigningRequest>();
        // Only to be in the cache: a request is judged by the nodes there are when it comes.
        watches.on_change::<Node>(|_, _| Vec::new());
        watches.needs::<Pod>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let request = caches.of::<CertificateSigningRequest>().get(key)?;
        let nodes = caches.of::<Node>().list();
        let nodes = nodes.iter().filter(|node| has_reported(node));
        let nodes = nodes.map(|node| (key_of(&**node).name, addresses(node))).collect();
        let asking = request.spec.signer_name == decide::MESH;
        let accounts = match decide::requesting_node(&request).filter(|_| asking) {
            Some(node) => accounts(&caches.of::<Pod>().list(), node),
            None => BTreeSet::new(),
        };
        Some(Observed { request, nodes, accounts })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let request = &*seen.request;
        if request.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let asked = self.authority.read(&request.spec);
        let known = Known { nodes: &seen.nodes, accounts: &seen.accounts };
        match decide(request, &asked, &known, &self.authority.reserved(), now) {
            Decision::Approve(message) => {
                plan.act(judged(request, "approval", "Approved", "AutoApproved", message, now));
            }
            Decision::Deny(message) => {
                plan.act(judged(request, "approval", "Denied", "NotPermitted", &message, now));
            }
            Decision::Sign => plan.act(match self.authority.sign(&request.spec, now) {
                Ok(certificate) => {
                    let patch = json!({"status": {"certificate": ByteString(certificate.into_bytes())}});
                    Action::Patch { target: Target::unchanged(request), subresource: Some("status"), patch }
                }
                Err(why) => judged(request, "status", "Failed", "SignerValidationFailure", &why, now),
            }),
            Decision::Remove => plan.act(Action::delete(request)),
            Decision::WaitUntil(then) => plan.again_at(then, now),
        }
        plan
    }
}

/// The request with one more condition.
fn judged(
    request: &CertificateSigningRequest,
    subresource: &'static str,
    condition: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Action {
    let known = request.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions: Vec<_> = known.into_iter().flatten().map(|known| json!(known)).collect();
    conditions.push(json!({
        "type": condition, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    }));
    let patch = json!({"status": {"conditions": conditions}});
    Action::Patch { target: Target::unchanged(request), subresource: Some(subresource), patch }
}

/// Of pods on that node that have not ended.
fn accounts(pods: &[Arc<Pod>], node: &str) -> BTreeSet<(String, String)> {
    let account = |pod: &Arc<Pod>| {
        let spec = pod.spec.as_ref().filter(|spec| spec.node_name.as_deref() == Some(node))?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let has_ended = matches!(phase, Some("Succeeded" | "Failed"));
        let account = spec.service_account_name.clone().filter(|_| !has_ended)?;
        Some((pod.metadata.namespace.clone()?, account))
    };
    pods.iter().filter_map(account).collect()
}

/// A Node that somebody only wrote down is still to be joined.
fn has_reported(node: &Node) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.is_some_and(|info| !info.kubelet_version.is_empty())
}

fn addresses(node: &Node) -> Vec<String> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    addresses.into_iter().flatten().map(|address| address.address.clone()).collect()
}

#[cfg(test)]
mod tests;
