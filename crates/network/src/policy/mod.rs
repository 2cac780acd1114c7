//! NetworkPolicies: `(policies, pods, namespaces, node)` → sets and chains of one nftables table → a transaction of nft.
//!
//! Each node guards its own pods: what comes to them and what they send. [`evaluate`] says what policies mean, one
//! connection at a time, and is what the rules are tested against; [`PolicyTable`] makes rules of them and changes no more
//! than what differs. Both are pure; [`follow`] alone talks to the API server and the kernel.
//!
//! It never guards pods of the host's network, never stops this node's own connections to its pods (the kubelet's probes),
//! and never touches a table of somebody else.

mod address_rules;
mod cluster;
mod evaluate;
mod explain;
mod follow;
mod kernel;
mod layout;
mod lines;
mod members;
mod network_policy;
mod pod;
mod table;
#[cfg(test)]
mod tests;

pub use cluster::{Cluster, Key, Labels};
pub use evaluate::{Connection, Decision, Party, Verdict, evaluate};
pub use explain::explain;
pub(crate) use follow::follow;
pub use follow::{PodAddresses, policy_table};
pub(crate) use kernel::clear;
pub use network_policy::{Block, Direction, Peer, PodSelector, Policy, Port, Protocol, Rule};
pub use pod::{NamedPort, Pod};
pub use table::PolicyTable;
