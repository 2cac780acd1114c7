//! What the end-to-end tests share: a server of their own and the kubectl binaries of this machine.

#![allow(dead_code, reason = "every test binary uses a part of it")]

mod kubectl;
mod plain;
mod server;
pub mod verbs;
mod words;

#[allow(unused_imports, reason = "every test binary uses a part of it")]
pub use kubectl::{Kubectl, Output, installed, ours, run_to_end};
#[allow(unused_imports, reason = "every test binary uses a part of it")]
pub use plain::plain;
#[allow(unused_imports, reason = "every test binary uses a part of it")]
pub use server::Server;
