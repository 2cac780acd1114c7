//! The node agent: runs the pods that the API server binds to this node.

mod cgroup;
mod cni;
mod config;
pub mod containerd;
pub mod cri;
pub mod image;
mod pod;
mod prepare;
mod quantity;
mod teardown;

pub use config::{Config, ConfigError};
pub use prepare::{PrepareError, prepare};
pub use teardown::tear_down;
