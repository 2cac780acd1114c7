//! A containerd of our own: its configuration, its process, its events.
//!
//! containerd outlives the agent, as the pods do. Nothing here knows of pods or of the API server.

mod all_containers;
mod connection;
mod ended_execs;
mod events;
mod groups;
mod host;
mod oci_spec;
mod orphans;
mod settings;
mod shims;
mod supervisor;
mod tasks;

pub use all_containers::{FoundContainer, all_containers};
pub use connection::connect;
pub use ended_execs::release_exec;
pub use events::{RuntimeEvent, watch_events};
pub use groups::{can_set_groups, set_groups};
pub use host::{CgroupMode, Host, OciRuntime};
pub use oci_spec::{SpecEdits, edit_spec};
pub use orphans::Orphans;
pub use settings::Settings;
pub use shims::{Shim, kill_tree, shims};
pub use supervisor::{Containerd, ContainerdError};
pub use tasks::end_task;
