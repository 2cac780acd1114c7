//! When a pod must leave its node.

use k8s_openapi::api::core::v1::{Pod, Taint};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::taints::{NOT_READY, TolerationPeriod, UNREACHABLE, toleration_period};

/// Seconds after which a pod is replaced when its node is in trouble, instead of its tolerations.
pub const FAILOVER: &str = "minik8s.io/failover-seconds";

/// The time at which the taints drive the pod away; None if it may stay.
pub(super) fn evicted_at(pod: &Pod, taints: &[Taint], now: Timestamp) -> Option<Timestamp> {
    if is_mirror(pod) {
        return None;
    }
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let deadlines = taints.iter().filter(|taint| taint.effect == "NoExecute").filter_map(|taint| {
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let bearing = match failover_seconds(pod) {
            Some(seconds) if [NOT_READY, UNREACHABLE].contains(&taint.key.as_str()) => {
                Some(TolerationPeriod::Seconds(seconds))
            }
            _ => toleration_period(tolerations, taint),
        };
        match bearing {
            None => Some(now),
            Some(TolerationPeriod::Seconds(seconds)) => {
                since.checked_add(SignedDuration::from_secs(seconds)).ok()
            }
            Some(TolerationPeriod::Forever) => None,
        }
    });
    deadlines.min()
}

/// For pods that cannot wait until a silent node is given up.
pub(super) fn failover_at(pod: &Pod, heard: Timestamp, lease: Option<SignedDuration>) -> Option<Timestamp> {
    let seconds = SignedDuration::from_secs(failover_seconds(pod)?);
    // A lease is renewed every quarter of its time: half of it is two signs of life missed.
    let least = lease.unwrap_or(super::DEFAULT_GRACE) / 2;
    heard.checked_add(seconds.max(least)).ok()
}

fn failover_seconds(pod: &Pod) -> Option<i64> {
    let value = pod.metadata.annotations.as_ref()?.get(FAILOVER)?;
    value.parse().ok().filter(|seconds| *seconds >= 0)
}

/// Pods that the node made by itself; nobody else can remove them.
fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key("kubernetes.io/config.mirror"))
}
