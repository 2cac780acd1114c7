//! The node object: registers it, keeps its status true, renews its lease, and follows what others say of it.

mod actor;
mod cache;
mod lease;
mod status;

pub use actor::NodeActor;
pub use cache::NodeCache;
