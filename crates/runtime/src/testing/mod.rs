//! A world in memory in which controllers are tested without a server, in milliseconds.
//!
//! [`World`] keeps objects the way the API does (names, UIDs, versions, finalizers, graceful deletion) and
//! feeds the caches that controllers read. [`Simulation`] lets controllers and actors (a pretended kubelet)
//! take turns, in order or at random, cuts plans short as a crash would, and moves the clock when all
//! wait. [`check_convergence`] is the property that every controller must have.

mod convergence;
mod kubelet;
mod random;
mod simulation;
mod world;

pub use convergence::check_convergence;
pub use kubelet::{Kubelet, set_pod_phase};
pub use random::Random;
pub use simulation::{Actor, Simulation};
pub use world::{Refused, World};
