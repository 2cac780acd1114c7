//! What becomes of one request. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::mesh::Identity;

use super::Asked;

pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub(super) const MESH: &str = minik8s_meta::mesh::SIGNER;

const BOOTSTRAPPERS: &str = "system:bootstrappers";
const NODES: &str = "system:nodes";

/// As upstream: what was decided is kept for an hour, what nobody decides for a day.
const KEEP_DECIDED: SignedDuration = SignedDuration::from_hours(1);
const KEEP_PENDING: SignedDuration = SignedDuration::from_hours(24);
/// A node may know of a pod before this controller does.
const POD_SEEN: SignedDuration = SignedDuration::from_secs(10);
const LOOK_AGAIN: SignedDuration = SignedDuration::from_millis(250);

/// What a request is judged by.
pub(super) struct Known<'a> {
    /// Nodes that have been seen alive, with their addresses.
    pub nodes: &'a BTreeMap<String, Vec<String>>,
    /// Service accounts (namespace and name) of the pods of the node that asks.
    pub accounts: &'a BTreeSet<(String, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Approve(&'static str),
    Deny(String),
    Sign,
    Remove,
    /// For somebody else to decide, or over; looked at again then.
    WaitUntil(Timestamp),
}

pub(super) fn decide(
    request: &CertificateSigningRequest,
    asked: &Result<Asked, String>,
    known: &Known<'_>,
    reserved: &(BTreeSet<String>, BTreeSet<IpAddr>),
    now: Timestamp,
) -> Decision {
    let status = request.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let has = |kind: &str| conditions.into_iter().flatten().any(|condition| condition.type_ == kind);
    let is_issued = status.is_some_and(|status| status.certificate.as_ref().is_some_and(|c| !c.0.is_empty()));
    let is_over = has("Denied") || has("Failed") || is_issued;
    let made = request.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let end = made + if is_over { KEEP_DECIDED } else { KEEP_PENDING };
    let is_ours =
        [CLIENT, KUBELET_CLIENT, KUBELET_SERVING, MESH].contains(&request.spec.signer_name.as_str());
    if end <= now {
        return Decision::Remove;
    }
    if is_over || !is_ours {
        return Decision::WaitUntil(end);
    }
    if has("Approved") {
        return Decision::Sign;
    }
    // What can never be signed is not approved either; a person may look at it.
    let Ok(asked) = asked else { return Decision::WaitUntil(end) };
    let verdict = match request.spec.signer_name.as_str() {
        KUBELET_CLIENT => client_of_node(request, asked, known.nodes),
        KUBELET_SERVING => serving_of_node(request, asked, known.nodes, reserved),
        MESH => identity_of_pod(request, asked, known.accounts, made, now),
        _ => None,
    };
    verdict.unwrap_or(Decision::WaitUntil(end))
}

fn client_of_node(
    request: &CertificateSigningRequest,
    asked: &Asked,
    nodes: &BTreeMap<String, Vec<String>>,
) -> Option<Decision> {
    let node = asked.node.as_deref()?;
    if requesting_node(request) == Some(node) {
        return Some(Decision::Approve("a node renews its own certificate"));
    }
    if !is_in(request, BOOTSTRAPPERS) {
        return None;
    }
    if nodes.contains_key(node) {
        // Else a join token would be a key to every node's secrets.
        return Some(Decision::Deny(format!(
            "a node named {node} is already in the cluster: choose another name with --node-name, or, if that \
             node is gone for good, remove it first: kubectl delete node {node}"
        )));
    }
    Some(Decision::Approve("the bearer of a join token becomes a new node"))
}

/// Whatever is signed here is trusted by everybody who trusts the API server, so a node gets its own name and
/// addresses and nobody else's.
fn serving_of_node(
    request: &CertificateSigningRequest,
    asked: &Asked,
    nodes: &BTreeMap<String, Vec<String>>,
    (names, addresses): &(BTreeSet<String>, BTreeSet<IpAddr>),
) -> Option<Decision> {
    let node = requesting_node(request)?;
    if asked.node.as_deref() != Some(node) {
        return Some(Decision::Deny(format!("node {node} may ask for certificates of its own only")));
    }
    if names.contains(node) {
        return Some(Decision::Deny(format!(
            "the API server itself is known as {node}: choose another name for the node with --node-name"
        )));
    }
    if let Some(other) = asked.names.iter().find(|name| *name != node) {
        return Some(Decision::Deny(format!("{other} is not a name of node {node}")));
    }
    for address in &asked.addresses {
        let shown = address.to_string();
        let mut others = nodes.iter().filter(|(name, _)| *name != node);
        let owner = others.find(|(_, addresses)| addresses.contains(&shown)).map(|(name, _)| name.as_str());
        let owner = if addresses.contains(address) { Some("the API server") } else { owner };
        if let Some(owner) = owner {
            return Some(Decision::Deny(format!("{address} is an address of {owner}, not of node {node}")));
        }
        if address.is_loopback() || address.is_unspecified() {
            return Some(Decision::Deny(format!("{address} is not an address of one node")));
        }
    }
    Some(Decision::Approve("a node asks for the certificate of its own port"))
}

/// A node gets the identities of its own pods' service accounts: stolen, it is none of the others.
fn identity_of_pod(
    request: &CertificateSigningRequest,
    asked: &Asked,
    accounts: &BTreeSet<(String, String)>,
    made: Timestamp,
    now: Timestamp,
) -> Option<Decision> {
    let node = requesting_node(request)?;
    let identity: Identity = asked.identity.as_deref()?.parse().ok()?;
    if accounts.contains(&(identity.namespace.clone(), identity.account.clone())) {
        return Some(Decision::Approve("a pod of that service account runs on the node that asks"));
    }
    if now < made + POD_SEEN {
        return Some(Decision::WaitUntil(now + LOOK_AGAIN));
    }
    let Identity { namespace, account, .. } = identity;
    Some(Decision::Deny(format!("no pod of service account {namespace}/{account} runs on node {node}")))
}

/// The node that asks, if it is one.
pub(super) fn requesting_node(request: &CertificateSigningRequest) -> Option<&str> {
    let name = request.spec.username.as_deref()?.strip_prefix("system:node:")?;
    is_in(request, NODES).then_some(name)
}

fn is_in(request: &CertificateSigningRequest, group: &str) -> bool {
    request.spec.groups.iter().flatten().any(|g| g == group)
}
