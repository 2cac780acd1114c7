//! The agent's HTTPS port: logs, exec, attach, port-forward, figures.
//!
//! It answers the API server alone, which shows a client certificate of the cluster's authority with the
//! expected name. It changes nothing on the node.

mod answer;
mod listener;
mod logs;
mod measurements;
mod route;
mod stream;

pub use listener::{Serving, ServingError, serve};
