//! The node object: registers it, keeps its status true, and renews its lease.

mod actor;
mod lease;
mod status;

pub use actor::NodeActor;
