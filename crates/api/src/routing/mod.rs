//! Rules about host names and paths that the HTTP router and the writer of its objects' status share, so that
//! what a status says is what the router does. Pure: nothing here routes a request.

mod backend;
mod claim;
mod class;

pub use backend::{Port, Problem, SERVICE_NAME, endpoints, service_of};
pub use claim::{Claim, Owner, Target, claims_of_dns, claims_of_ingress, default_backend, normal_path};
pub use class::{CLASS, CONTROLLER, serves};
