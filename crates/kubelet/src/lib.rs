//! The node agent: runs the pods that the API server binds to this node.
//!
//! [`run`] is the whole agent. Below it are actors with state of their own: a worker per pod, one that
//! watches pods and runtime, one for the node object. What they decide is pure and stands apart from what they do.
//!
//! It never decides which node a pod runs on, and its end ends no container: what it must know again is in the API, in the
//! runtime or in its data dir.

mod agent;
mod cgroup;
mod cni;
mod config;
mod container;
pub mod containerd;
mod context;
pub mod cri;
mod csi;
mod devices;
mod dir_changes;
mod ended_logs;
mod events;
mod function_code;
#[cfg(test)]
mod fuzz;
mod handler;
mod housekeeping;
pub mod image;
mod image_pull;
mod inventory;
#[cfg(test)]
mod log_bench;
mod log_export;
mod log_file;
mod log_search;
mod machine;
mod metrics;
mod node;
mod objects;
mod pages;
mod pod;
mod prepare;
mod pressure;
mod probe;
mod quantity;
mod sandbox;
mod server;
mod services;
mod slots;
mod static_pods;
mod stats;
mod storage;
mod teardown;
mod tls;
mod volume;

pub use agent::{RunError, run};
pub use cgroup::{Hierarchy, remove_tree as remove_cgroups};
pub use cni::bridge_name;
pub use config::{Config, ConfigError, DrainRequest, PodPort, PortRequest};
pub use devices::TopologyPolicy;
pub use ended_logs::LogRetention;
pub use housekeeping::{HousekeepingSettings, ImageSettings, LogSettings};
pub use metrics::MetricsPages;
pub use prepare::{PrepareError, prepare};
pub use pressure::{ThresholdError, Thresholds};
pub use server::Serving;
pub use stats::{Subject, Subjects};
pub use teardown::{TearDownError, tear_down};
