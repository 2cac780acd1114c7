//! Services whose requests a proxy of the node leads, as one part of an agent tells another.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// By the Service's address, with the port: who sends requests there need not choose an endpoint.
pub type LedServices = BTreeMap<SocketAddr, LedBy>;

/// What leads the requests to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedBy {
    VirtualService,
    /// Routes of the Gateway API with the Service as their parent.
    ServiceRoutes,
}
