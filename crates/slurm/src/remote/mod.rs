//! The way to a login node: the system's `ssh`, because it is the one implementation that everybody's cluster is tried with,
//! and is kept safe by the distribution. One connection per process, which all commands share; every command has a time
//! limit; nothing secret is ever an argument.

mod scripts;
mod ssh;

pub use scripts::*;
pub use ssh::{Credentials, Failure, Ssh};
