//! Figures of the node, its pods and their containers, read from the kernel when somebody asks.

mod cadvisor;
mod collect;
mod network;
mod own;
mod resource;
mod summary;
mod text;

pub use cadvisor::cadvisor;
pub use collect::{Collector, NodeSample, disk};
pub use own::{Operations, Process, own};
pub use resource::resource;
pub use summary::summary;
