//! What DNS objects and Ingresses say about themselves: whether each path leads to a Service that answers, who
//! was first where two claim one place, and at which addresses an Ingress is reached.
//!
//! The router on each node decides by the same rules ([`minik8s_meta::routing`]); nothing here routes.

mod conflict;
mod dns;
mod ingress;
#[cfg(test)]
mod tests;

pub use dns::DnsStatuses;
pub use ingress::IngressStatuses;
