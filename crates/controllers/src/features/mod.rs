//! The features that this crate brings: each is one file, and one line in the program's list.
//!
//! What a cluster cannot do without (nodes, accounts, certificates, deletion) is no feature; see [`crate::run`].

mod autoscaling;
mod dynamic_resources;
mod network_policies;
mod quota;
mod resource_metrics;
mod routing;
mod services;
mod workloads;

pub use autoscaling::Autoscaling;
pub use dynamic_resources::DynamicResources;
pub use network_policies::NetworkPolicies;
pub use quota::ResourceQuotas;
pub use resource_metrics::ResourceMetrics;
pub use routing::Routing;
pub use services::Services;
pub use workloads::Workloads;
