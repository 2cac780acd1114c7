//! The control loops that make desired state real: a folder per controller.
//!
//! Each is a [`minik8s_runtime::Controller`]: it names what it watches, observes the caches, and makes a plan
//! by a pure function. Effects, retries, back-off and leader gating are the runtime's. No controller polls.

pub mod autoscale;
pub mod certificate;
mod claim;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
pub mod endpoint_slice_mirroring;
pub mod endpoints;
pub mod features;
pub mod garbage_collector;
mod hash;
mod history;
pub mod job;
pub mod load_balancer;
pub mod namespace;
pub mod node;
pub mod node_ipam;
mod orphans;
pub mod pod_gc;
mod pods;
pub mod quota;
pub mod replica_set;
pub mod resource_claim;
pub mod resource_metrics;
pub mod routing;
mod run;
pub mod service_account;
pub mod service_cidr;
pub mod simulate;
pub mod stateful_set;
mod template;

pub use run::{Config, run};
