//! The Container Storage Interface: its messages, and calls of drivers over their sockets.
//!
//! The messages are written by hand, with the fields that an orchestrator needs; unknown ones are skipped, as protobuf
//! wants it. A call is bytes with a name, so that an agent can hand on what the server asks of a driver's controller
//! service without knowing it. Nothing here retries, and nothing knows of Kubernetes.

mod call;
mod capability;
mod client;
pub mod controller;
mod identity;
mod names;
pub mod node;
pub mod registration;
#[cfg(feature = "server")]
pub mod server;
mod status;
mod topology;

pub use call::Call;
pub use capability::{AccessMode, AccessType, Block, CapacityRange, Mode, Mount, VolumeCapability};
pub use client::Driver;
pub use identity::{GetPluginCapabilities, GetPluginInfo, PluginCapabilities, PluginInfo, Probe};
pub use names::{attachment_name, digest, driver_name_fault, unique_volume_name};
pub use status::{CallError, Code};
pub use topology::{Topology, TopologyRequirement};

/// The annotation of a CSIDriver whose controller service the server calls through the agents, since nobody else does.
pub const CONTROLLER_ANNOTATION: &str = "csi.minik8s.io/controller";
/// Its only value.
pub const CONTROLLER_BY_AGENT: &str = "agent";

/// The header of an agent's answer that tells the driver's code, where it refused.
pub const CODE_HEADER: &str = "x-csi-code";

/// What a call carries of names and values.
pub type Pairs = std::collections::HashMap<String, String>;
