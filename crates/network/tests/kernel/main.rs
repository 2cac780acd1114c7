//! Rules and routes in a real kernel: machines are network namespaces. Needs root; without it the tests say so
//! and do nothing.

#![allow(clippy::unwrap_used)]

mod lab;
mod pod_network;
mod services;
