//! Pods reach pods on other nodes: by plain routes where the nodes share a link, through VXLAN where they do
//! not.
//!
//! `(nodes, me)` → [`Links`] is pure, and so is what leads from the links that are there to those that are
//! wanted ([`changes`]); [`Kernel`] alone runs something. Everything a node must know of another stands in
//! the other's Node object; the hardware address of its tunnel follows from its pod range, so that nothing
//! else is exchanged. It touches only routes of its own protocol number and its own tunnel device, and it
//! never removes them at its end: packets flow on without this process.

mod changes;
mod kernel;
mod link_events;
mod links;
mod overlap;
mod owner;
mod plan;
mod run;

#[cfg(test)]
mod tests;

pub use changes::{Changes, ROUTE_PROTOCOL, changes};
pub use kernel::{Kernel, KernelError};
pub(crate) use link_events::LinkEvents;
pub use links::{Links, Mac, Route, Vxlan};
pub use overlap::{Overlap, check_ranges};
pub use owner::Owner;
pub use plan::{Backend, Me, Peer, Plan, Uplink, peers, plan, pod_mtu};
pub(crate) use run::follow;
