//! The HTTP router of one node: leads requests by host name and path to the pods behind Services.
//!
//! [`run`] follows DNS objects, Ingresses, Services and their endpoints. From them comes a [`Table`], a pure
//! value; the [`proxy`] looks every request up in the newest one. A new table touches no connection: requests
//! under way end where they began, and the next request on the same connection sees the new table.
//!
//! It connects to endpoints itself, not through a Service's virtual address, so that it can keep connections,
//! try another endpoint, and let go of one that leaves. It never decides who is ready: the EndpointSlice
//! controller does.

mod config;
mod gate;
mod gateway;
mod hosts;
mod invocation;
mod listen;
pub mod proxy;
mod run;
mod sources;
pub mod table;
mod tls;

pub use config::Config;
pub use hosts::{HostsFile, tear_down};
pub use minik8s_proxy::LedServices;
pub use run::{Router, checkpointed, run};
pub use table::Table;
pub use tls::Certificates;
