//! ServiceMonitor, PodMonitor and Probe of monitoring.coreos.com/v1: what the Prometheus operator makes configuration of
//! is made into targets here, with their final labels, so that an engine finds new ones without being configured anew.
//!
//! Pure: a page is a function of objects. A monitor cannot send an engine to another host than that of the endpoint it
//! selects, nor give targets another namespace than theirs: whoever may write monitors in one namespace would otherwise
//! write series of all.

mod duration;
mod endpoint;
mod kinds;
mod page;
mod pod_monitor;
mod probe;
mod relabel;
mod rules;
mod scope;
mod service_monitor;

pub use duration::milliseconds as duration_milliseconds;
pub use kinds::{PodMonitor, Probe, PrometheusRule, ServiceMonitor};
pub use page::{MONITOR_KINDS, needs, page};
pub use relabel::is_label_name;
pub use rules::{pod_monitor, probe, service_monitor};

#[cfg(test)]
mod tests;
