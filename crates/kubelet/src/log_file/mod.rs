//! The log files that the runtime writes for containers: their lines, and where the last of them begin.
//!
//! Nothing here knows who reads them: `kubectl logs`, or the agent for a termination message.

mod line;
mod tail;

pub use line::Line;
pub use tail::tail_offset;
