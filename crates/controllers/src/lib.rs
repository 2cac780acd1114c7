//! The control loops that make desired state real: a folder per controller.
//!
//! Each is a [`minik8s_runtime::Controller`]: it names what it watches, observes the caches, and makes a plan
//! by a pure function. Effects, retries, back-off and leader gating are the runtime's. No controller polls.

mod claim;
pub mod deployment;
mod hash;
mod orphans;
mod pods;
pub mod replicas;
mod run;
mod template;

pub use run::{Config, run};
