//! What Prometheus needs of a cluster: targets it finds by itself, rules, dashboards, and the objects that run it.
//!
//! The engine is an ordinary workload of the cluster; nothing here scrapes, stores or evaluates. Switched on it is a page
//! that is made when somebody asks, so that nobody pays for it who does not.

pub mod dashboards;
pub mod discovery;
mod event_export;
mod feature;
pub mod install;
mod log_search;
mod metrics_api;
pub mod monitors;
mod node_api;
mod node_inventory;
mod prometheus_rule;
pub mod promql;
pub mod rules;

pub use event_export::export_events;
pub use feature::{DISCOVERY, Monitoring};
