//! Names of Services: a resolver in every agent, answering from what the agent watches anyway.
//!
//! `(services, slices)` → [`Zone`] is pure, and so is the wire format; [`Resolver`] does the talking. Names
//! outside the cluster's domain go to the node's own name servers as they are.

mod forward;
mod message;
mod server;
mod zone;

#[cfg(test)]
mod tests;

pub use forward::Upstreams;
pub use message::{Query, Reply, Status, parse};
pub use server::Resolver;
pub use zone::{Data, Record, Zone, zone};
