//! cgroups of pods: limits for a pod as a whole, what its containers use, and their removal.
//!
//! The runtime makes the cgroups of containers; those above them are ours. v1, hybrid and v2 hosts differ
//! only in file names and units.

mod hierarchy;
mod limits;
mod usage;

pub use hierarchy::{Hierarchy, end_processes, remove_tree};
pub use limits::{PodLimits, apply, grow, set_cpu_shares};
pub use usage::{Usage, busy_nanoseconds, field, machine_usage, meminfo_field, usage};
