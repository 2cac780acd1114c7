//! networking.k8s.io: HTTP routing, network policy, addresses.

pub(super) mod ingress;
pub(super) mod ingress_class;
pub(super) mod ip_address;
pub(super) mod network_policy;
pub(super) mod service_cidr;
