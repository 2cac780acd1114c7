//! The objects that run a monitoring engine in the cluster: Prometheus or VictoriaMetrics, and Alertmanager. Pure: flags
//! become objects; whoever has a client applies them.

mod config;
mod objects;
mod settings;

pub use config::{alertmanager_config, prometheus_config, scrape_config};
pub use objects::{Placed, objects};
pub use settings::{Engine, Settings, SettingsError};

/// Where all of them are.
pub const NAMESPACE: &str = "monitoring";
/// On each of them, so that they are found again.
pub const LABEL: (&str, &str) = ("app.kubernetes.io/part-of", "minik8s-monitoring");
/// The claim that keeps what was measured, where one is asked for.
pub const CLAIM: &str = "metrics";

#[cfg(test)]
mod tests;
