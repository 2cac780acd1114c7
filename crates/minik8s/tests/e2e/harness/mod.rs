//! What the areas share: servers and clusters of their own, the kubectl binaries of this machine, and clients that remember
//! what they were told.

pub mod cluster;
pub mod consistency;
pub mod control_plane;
#[path = "../../../../store/tests/etcd_server/mod.rs"]
#[allow(dead_code, reason = "the store's own tests ask more")]
pub mod etcd_server;
mod kubectl;
pub mod lab;
mod plain;
pub mod ranges;
pub mod seed;
mod server;
pub mod verbs;
pub mod words;

pub use kubectl::{Kubectl, Output, installed, ours, run_to_end};
pub use plain::plain;
pub use server::Server;
