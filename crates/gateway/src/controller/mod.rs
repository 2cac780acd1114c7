//! The controllers of classes, Gateways and routes. What they decide is decided elsewhere in this crate.

mod class;
mod gateway;
mod infrastructure;
mod nodes;
mod policy;
mod route;
mod status;
#[cfg(test)]
mod tests;

pub use class::{ClassController, create_class};
pub use gateway::{GatewayController, needs};
pub use policy::PolicyController;
pub use route::RouteController;
