//! The page of all monitors' targets, in the form of `http_sd_configs`.

use serde_json::Value;

use super::{pod_monitor, probe, service_monitor};
use crate::discovery::{Kind, Objects};

/// What the page is made of: group, version and plural of each.
pub const MONITOR_KINDS: [(&str, &str, &str); 3] = [
    ("monitoring.coreos.com", "v1", "servicemonitors"),
    ("monitoring.coreos.com", "v1", "podmonitors"),
    ("monitoring.coreos.com", "v1", "probes"),
];

/// The monitors, in the order of [`MONITOR_KINDS`], and the kinds of objects that these look at.
pub fn needs(monitors: &[Vec<Value>; 3]) -> Vec<Kind> {
    let mut kinds = Vec::new();
    if !monitors[0].is_empty() {
        kinds.extend([Kind::EndpointSlice, Kind::Service]);
    }
    if !monitors[0].is_empty() || !monitors[1].is_empty() {
        kinds.push(Kind::Pod);
    }
    if monitors[2].iter().any(|probe| !probe["spec"]["targets"]["ingress"].is_null()) {
        kinds.push(Kind::Ingress);
    }
    kinds
}

/// The targets whose own labels count (`honorLabels`), or all others: that is a matter of the job, not of a target.
pub fn page(monitors: &[Vec<Value>; 3], objects: &Objects, honor: bool) -> Vec<u8> {
    let mut found = Vec::new();
    service_monitor::targets(&monitors[0], objects, honor, &mut found);
    pod_monitor::targets(&monitors[1], objects, honor, &mut found);
    if !honor {
        probe::targets(&monitors[2], objects, &mut found);
    }
    // Writing strings into memory cannot fail.
    serde_json::to_vec(&found).unwrap_or_else(|_| b"[]".to_vec())
}
