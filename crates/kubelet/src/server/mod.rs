//! The agent's HTTPS port: logs, exec, attach, port-forward, metrics, containers and images, calls of CSI drivers.
//!
//! It answers the API server, which shows a client certificate of the cluster's authority with the expected name; and
//! pages of metrics to those whose token the API server knows and allows them. It changes nothing on the node, but for what
//! the server asks of a CSI driver's controller service (`csi/relay.rs`), and unused images that it wants to go.

mod answer;
#[cfg(test)]
pub mod fuzzing;
mod inventory;
mod listener;
mod logs;
mod measurements;
mod mesh_tap;
mod route;
mod shared_storage;
mod stream;
mod token_access;

pub use listener::{Serving, ServingError, serve};
