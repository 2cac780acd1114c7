//! Names of Services: a resolver in every agent, answering from what the agent watches anyway.
//!
//! A Service's [`records`] and the wire format are pure; [`Zone`] holds the records of all Services;
//! [`Resolver`] does the talking. Names outside the cluster's domain go to the node's own name servers as they
//! are, and their answers are kept as long as they may be.

mod answer;
mod cache;
mod forward;
mod hosts;
mod message;
mod names;
mod search;
mod server;
mod zone;

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use cache::Cache;
pub use forward::Upstreams;
pub use hosts::Hosts;
pub(crate) use hosts::follow as follow_hosts;
pub use message::{Query, Reply, Status, parse, question};
pub use names::records;
pub use server::Resolver;
pub use zone::{Data, Record, Zone};
