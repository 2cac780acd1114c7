//! Rules of Prometheus: alerts that say what to do, and recording rules under the names that public dashboards expect.

/// For `promtool`, Prometheus and vmalert alike.
pub const ALERTS: &str = include_str!("alerts.yml");
pub const RECORDING: &str = include_str!("recording.yml");

/// The names of all alerts, in order.
pub fn alerts() -> impl Iterator<Item = &'static str> {
    ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: "))
}
