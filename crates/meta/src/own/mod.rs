//! The types of our own kinds (`minik8s.io/v1`) and of others that k8s-openapi has not: what clients send, components read and the server stores. Their rules
//! (defaults, validation, columns) are the server's.

pub mod destination;
pub mod dns;
pub mod function;
pub mod function_call;
pub mod gateway;
pub mod image_repository;
pub mod invocation;
pub mod mesh;
pub mod pod_address;
pub mod resource_metrics;
pub mod scaling_decision;
mod served_type;
pub mod snapshot;
pub mod trigger;

pub use served_type::{api_version, kind};
