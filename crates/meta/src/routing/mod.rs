//! Rules about host names and paths that the HTTP router and the writer of its objects' status share, so that
//! what a status says is what the router does. Pure: nothing here routes a request.

mod backend;
mod claim;
mod class;
mod host_name;

pub use backend::{Port, Problem, SERVICE_NAME, endpoints, endpoints_of, service_of};
pub use claim::{
    Claim, HostOwners, Owner, Target, claims_of_dns, claims_of_ingress, default_backend, normal_path,
};
pub use class::{CLASS, CONTROLLER, serves};
pub use host_name::{
    ALLOWED_HOSTS, HostGrant, HostPattern, HostUse, RESERVED, check_host, host_patterns, reserved_host,
};
