//! What is known of the use of pods.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// One pod's use at one time, in thousandths of each unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSample {
    pub at: Timestamp,
    /// Over how long rates were averaged.
    pub window: SignedDuration,
    /// Container to resource to amount.
    pub containers: BTreeMap<String, BTreeMap<String, i64>>,
    /// Metrics that the pod tells of itself.
    pub own: BTreeMap<String, i64>,
}

impl PodSample {
    /// The pod's use of a resource, or that of one container.
    pub fn amount(&self, resource: &str, container: Option<&str>) -> Option<i64> {
        match container {
            Some(name) => self.containers.get(name)?.get(resource).copied(),
            None => self.containers.values().map(|amounts| amounts.get(resource).copied()).sum(),
        }
    }
}
