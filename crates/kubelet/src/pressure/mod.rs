//! A node that runs short of memory, disk or processes says so and ends pods before the kernel does.

mod actor;
mod disk_use;
mod rank;
mod signals;
mod thresholds;

pub use actor::{Eviction, PressureActor};
pub use signals::{Pressure, Resource};
pub use thresholds::{ThresholdError, Thresholds};
