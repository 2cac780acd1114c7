//! A node that runs short of memory, disk or processes says so and ends pods before the kernel does.

mod actor;
mod empty_dirs;
mod rank;
mod signals;

pub use actor::{Eviction, PressureActor};
pub use signals::{Pressure, Resource};
