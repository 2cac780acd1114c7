//! Pods: what they should be, what to do next, and what to tell the API server.
//!
//! `plan` and `status` are pure; the worker carries out what they say.

mod admission;
mod admitted;
mod claimed_volumes;
mod conditions;
mod container_status;
mod desired_pod;
mod exits;
mod hook;
mod host_ports;
mod image_volumes;
mod index;
mod limits;
mod local_state;
mod manager;
mod mesh;
mod operation;
mod plan;
mod port;
mod predicates;
mod qos;
mod report;
mod resize;
mod restart;
mod runtime_class;
mod runtime_events;
mod slot;
mod start;
mod status;
mod terminate;
mod termination;
mod unsupported;
mod worker;

pub use desired_pod::{ContainerSpec, DesiredPod, Kind};
pub use index::PodIndex;
pub use limits::{disk_request, memory_request};
pub use local_state::ForcedTermination;
pub use manager::Manager;
pub use operation::{OperationError, subject};
pub use predicates::NodeView;
pub use qos::{QosClass, class as qos_class};
pub use slot::guard_port;
