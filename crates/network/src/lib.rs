//! The network of one node: leads connections to Services to the pods behind them, and knows their names.
//!
//! [`run`] follows Services and EndpointSlices and keeps one nftables table of its own in step with them. The
//! data path is the kernel's: when this process ends, everything goes on as it was. It never touches a table
//! that it did not make, and it never decides who is an endpoint: the EndpointSlice controller does.

mod config;
pub mod dns;
pub mod proxy;
mod run;
mod sysctl;
mod watches;

pub use config::{Config, Dns};
pub use run::{RunError, run, tear_down};
