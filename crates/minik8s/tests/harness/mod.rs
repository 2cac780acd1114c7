//! What the end-to-end tests share: a server of their own and the kubectl binaries of this machine.

#![allow(dead_code, reason = "every test binary uses a part of it")]

mod kubectl;
mod server;

#[allow(unused_imports, reason = "every test binary uses a part of it")]
pub use kubectl::{Kubectl, Output, installed, ours};
#[allow(unused_imports, reason = "every test binary uses a part of it")]
pub use server::Server;
