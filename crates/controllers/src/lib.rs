//! The control loops that make desired state real: a folder per controller.
//!
//! Each is a [`minik8s_runtime::Controller`]: it names what it watches, observes the caches, and makes a plan
//! by a pure function. Effects, retries, back-off and leader gating are the runtime's. No controller polls.

pub mod autoscale;
mod catalog;
pub mod certificate;
mod claim;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod garbage;
mod hash;
mod history;
pub mod job;
pub mod load_balancer;
pub mod measure;
pub mod namespace;
pub mod node;
pub mod node_range;
mod orphans;
pub mod pod_garbage;
mod pods;
pub mod quota;
pub mod replicas;
pub mod routing;
mod run;
pub mod service_account;
pub mod simulate;
pub mod stateful_set;
mod template;

pub use catalog::Catalog;
pub use run::{Config, run};
