//! What the containers of a pod share: namespaces, network, name service, cgroup. Pure.

mod config;
mod dns;
mod hosts;

pub use config::{Surroundings, class_cgroup, pod_cgroup, pod_log_dir, pod_log_name, sandbox_config};
pub use dns::ResolvConf;
pub use hosts::hosts_file;
