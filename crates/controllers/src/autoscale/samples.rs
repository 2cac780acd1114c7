//! What is known of the use of pods.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_metrics::PodUse;

/// Resources that are measured of pods, beside cpu and memory: bytes per second.
pub const RECEIVED: &str = "minik8s.io/network-rx-bytes-per-second";
pub const SENT: &str = "minik8s.io/network-tx-bytes-per-second";
pub const READ: &str = "minik8s.io/disk-read-bytes-per-second";
pub const WRITTEN: &str = "minik8s.io/disk-write-bytes-per-second";
/// All resources that an autoscaler may go by.
pub const MEASURED: [&str; 6] = ["cpu", "memory", RECEIVED, SENT, READ, WRITTEN];

/// One pod's use at one time, in thousandths of each unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSample {
    pub at: Timestamp,
    /// Over how long rates were averaged.
    pub window: SignedDuration,
    /// Container to resource to amount.
    pub containers: BTreeMap<String, BTreeMap<String, i64>>,
    /// Resources that belong to the pod as a whole.
    pub whole: BTreeMap<String, i64>,
    /// Metrics that the pod tells of itself.
    pub own: BTreeMap<String, i64>,
}

impl PodSample {
    /// The pod's use of a resource, or that of one container.
    pub fn amount(&self, resource: &str, container: Option<&str>) -> Option<i64> {
        match container {
            Some(name) => self.containers.get(name)?.get(resource).copied(),
            None if matches!(resource, RECEIVED | SENT) => self.whole.get(resource).copied(),
            None => self.containers.values().map(|amounts| amounts.get(resource).copied()).sum(),
        }
    }
}

impl From<PodUse> for PodSample {
    fn from(used: PodUse) -> Self {
        let thousandfold = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX).saturating_mul(1000);
        let containers = used.containers.into_iter().map(|(name, used)| {
            let amounts = [
                ("cpu", i64::try_from(used.cpu_nanos / 1_000_000).unwrap_or(i64::MAX)),
                ("memory", thousandfold(used.memory_bytes)),
                (READ, thousandfold(used.disk_read)),
                (WRITTEN, thousandfold(used.disk_written)),
            ];
            (name, amounts.into_iter().map(|(resource, amount)| (resource.to_owned(), amount)).collect())
        });
        let traffic = used.traffic.map(|(received, sent)| [(RECEIVED, received), (SENT, sent)]);
        let whole = traffic.into_iter().flatten().map(|(name, bytes)| (name.to_owned(), thousandfold(bytes)));
        #[allow(clippy::cast_possible_truncation, reason = "a cast of floats saturates")]
        let own = used.own.into_iter().map(|(name, value)| (name, (value * 1000.0) as i64));
        PodSample {
            at: used.at,
            window: used.window,
            containers: containers.collect(),
            whole: whole.collect(),
            own: own.collect(),
        }
    }
}
