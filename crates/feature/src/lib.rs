//! What a feature is: a folder or crate that implements [`ServerFeature`], [`AgentFeature`] or both, and one line for each in
//! the program's lists.
//!
//! Everything that exists beyond the API itself is a feature: workloads, Services, autoscaling and so on. A feature that
//! is switched off adds nothing: no kind, no watch, no task. This crate holds no feature and knows none by name.

mod agent;
mod parts;

use minik8s_api::Extension;

pub use agent::{AgentFeature, AgentParts, NodeInfo, NodePlace, PodHooks};
pub use parts::Parts;

/// A part of the control plane that can be left out.
pub trait ServerFeature: Send + Sync {
    /// As `--disable-feature` names it.
    fn name(&self) -> &'static str;

    /// What it adds to the API. Asked for once, before the server listens.
    fn extension(&self) -> Extension {
        Extension::default()
    }

    /// Adds its controllers and tasks. They work while this server leads.
    fn start(&self, _parts: &mut Parts) {}
}
