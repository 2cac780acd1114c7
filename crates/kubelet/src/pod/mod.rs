//! Pods: what they should be, what to do next, and what to tell the API server.
//!
//! `plan` and `status` are pure; the worker carries out what they say.

mod blueprint;
mod conditions;
mod container_status;
mod notes;
mod plan;
mod qos;
mod restart;
mod status;
