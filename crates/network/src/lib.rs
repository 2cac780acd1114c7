//! The network of one node: leads packets to pods of other nodes and connections to Services to the pods
//! behind them, knows their names, and enforces NetworkPolicies.
//!
//! [`run`] follows Nodes, Services and EndpointSlices and keeps routes and one nftables table of its own in
//! step with them, one for each address family of the cluster. The data path is the kernel's: when this process ends, everything goes on as it was. It never
//! touches a table that it did not make, and it never decides who is an endpoint: the EndpointSlice controller does.

mod backends;
mod config;
pub mod dns;
mod drain;
mod family_rules;
mod health;
mod localnet;
pub mod metrics;
mod names;
pub mod pod_network;
pub mod pod_ports;
pub mod policy;
mod ports;
pub mod proxy;
mod reports;
mod run;
mod service_rules;
mod sysctl;
mod watches;

pub use config::{Config, Dns};
pub use drain::EndingPod;
pub use metrics::Metrics;
pub use ports::somebody_listens;
pub use run::{checkpointed, run, tear_down};
