//! Probes: is a container started, alive, ready?
//!
//! One task per probe and container asks and counts; the pod's worker draws the conclusions.

mod check;
mod counts;
mod grpc;
mod health;
mod tally;
mod task;

pub use counts::ProbeCounts;
pub use health::ProbeBoard;
pub use task::{ProbeResult, ProbeTarget};

use k8s_openapi::api::core::v1 as core;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

impl ProbeKind {
    pub const ALL: [ProbeKind; 3] = [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness];

    pub fn of(self, container: &core::Container) -> Option<&core::Probe> {
        match self {
            ProbeKind::Startup => container.startup_probe.as_ref(),
            ProbeKind::Liveness => container.liveness_probe.as_ref(),
            ProbeKind::Readiness => container.readiness_probe.as_ref(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ProbeKind::Startup => "startup",
            ProbeKind::Liveness => "liveness",
            ProbeKind::Readiness => "readiness",
        }
    }

    /// As events begin: `Liveness probe failed: …`.
    pub fn title(self) -> &'static str {
        match self {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        }
    }
}
