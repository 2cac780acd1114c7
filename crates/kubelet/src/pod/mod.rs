//! Pods: what they should be, what to do next, and what to tell the API server.
//!
//! `plan` and `status` are pure; the worker carries out what they say.

mod admission;
mod blueprint;
mod conditions;
mod container_status;
mod exits;
mod hook;
mod host_ports;
mod image_volumes;
mod index;
mod limits;
mod manager;
mod notes;
mod operation;
mod plan;
mod qos;
mod report;
mod resize;
mod restart;
mod runtime_class;
mod start;
mod status;
mod termination;
mod worker;

pub use blueprint::{Blueprint, ContainerSpec, Kind};
pub use index::PodIndex;
pub use limits::{disk_request, memory_request};
pub use manager::Manager;
pub use notes::End;
pub use operation::{OperationError, subject};
pub use qos::{QosClass, class as qos_class};
