//! The readers of this port, for `crate::fuzz` alone.

pub use super::stream::fuzzing::*;
