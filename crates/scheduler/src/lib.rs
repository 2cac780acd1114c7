//! Finds a node for every pod, and explains itself when it can't.
//!
//! [`Scheduler`] is the whole of it without IO: watch events go in, and bindings, explanations and evictions
//! come out. It keeps a [`snapshot`] of the cluster current by events, refuses nodes by [`filters`] and
//! compares the rest by [`scores`] or by one of the simple [`Strategy`]s. [`run`] connects it to the API.
//!
//! It never looks at a container, never talks to a node, and changes nothing but bindings, the status of
//! pods it explains, pods that must make room, and what claims say of their devices.

mod bound_claims;
mod csi;
mod decide;
pub mod devices;
mod diagnose;
mod explain;
pub mod filters;
mod inbox;
mod measured;
mod nominations;
mod preempt;
mod queue;
mod rank;
mod ready_devices;
mod reserve;
mod run;
mod scheduler;
pub mod scores;
pub mod snapshot;
mod spread;
mod strategy;
mod volumes;
mod waking;

pub use decide::{Chooser, Decision, Refused, decide, refusal};
pub use diagnose::{NodeObstacles, Obstacle, diagnose, nearest};
pub use explain::explain;
pub use measured::measured_use;
pub use preempt::{Preemption, preempt};
pub use rank::{NodeScore, NodeScores, rank, strategy_of};
pub use run::{Config, run};
pub use scheduler::{Change, Effect, Event, SETTINGS, Scheduler};
pub use strategy::{ANNOTATION, Strategy, UnknownStrategy};
pub use volumes::Volumes;
pub use waking::Waking;
