//! What controllers ask about pods.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Neither finished nor on its way out.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

pub fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

pub fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == kind)
}

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|c| c.status == "True")
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|c| c.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Ready for at least `min_ready_seconds`.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod) && available_at(pod, min_ready_seconds).is_none_or(|at| at <= now)
}

/// When a ready pod will count as available, if it stays ready. None if that takes no time.
pub fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    if min_ready_seconds <= 0 {
        return None;
    }
    ready_since(pod)?.checked_add(SignedDuration::from_secs(i64::from(min_ready_seconds))).ok()
}

/// The earliest time after `now` at which one of the pods becomes available by waiting alone.
pub fn next_available(pods: &[Arc<Pod>], min_ready_seconds: i32, now: Timestamp) -> Option<Timestamp> {
    pods.iter().filter_map(|pod| available_at(pod, min_ready_seconds)).filter(|at| *at > now).min()
}

/// Containers have been restarted this often, the most restarted one counting.
fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|c| c.restart_count).max().unwrap_or(0)
}

fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    let cost = annotations.and_then(|a| a.get("controller.kubernetes.io/pod-deletion-cost"));
    cost.and_then(|c| c.parse().ok()).unwrap_or(0)
}

pub fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Sorts so that those whose loss hurts least come first: unassigned, pending, unready, cheap to delete, on
/// nodes with many siblings, ready for the shortest time, often restarted, young.
pub fn sort_for_deletion(pods: &mut [Arc<Pod>]) {
    let mut siblings: HashMap<String, usize> = HashMap::new();
    for node in pods.iter().filter_map(|pod| node_name(pod)) {
        *siblings.entry(node.to_owned()).or_default() += 1;
    }
    let crowd = |pod: &Pod| node_name(pod).and_then(|node| siblings.get(node)).copied().unwrap_or(0);
    let phase_rank = |pod: &Pod| match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    pods.sort_by(|a, b| {
        node_name(a)
            .is_some()
            .cmp(&node_name(b).is_some())
            .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
            .then_with(|| is_ready(a).cmp(&is_ready(b)))
            .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
            .then_with(|| crowd(b).cmp(&crowd(a)))
            .then_with(|| youngest_first(ready_since(a), ready_since(b)))
            .then_with(|| restarts(b).cmp(&restarts(a)))
            .then_with(|| youngest_first(created(a), created(b)))
            .then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

fn youngest_first(a: Option<Timestamp>, b: Option<Timestamp>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.cmp(&a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, ready: bool, node: Option<&str>, created: i64, annotations: Value) -> Arc<Pod> {
        let time = Timestamp::from_second(created).unwrap().to_string();
        let pod = json!({
            "metadata": {"name": name, "creationTimestamp": time, "annotations": annotations},
            "spec": {"containers": [], "nodeName": node},
            "status": {
                "phase": if node.is_some() { "Running" } else { "Pending" },
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
                    "lastTransitionTime": time}],
            },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_least_useful_go_first() {
        let cheap = json!({"controller.kubernetes.io/pod-deletion-cost": "-1"});
        let mut pods = [
            pod("old-ready", true, Some("n1"), 1, json!({})),
            pod("cheap", true, Some("n2"), 1, cheap),
            pod("pending", false, None, 9, json!({})),
            pod("unready", false, Some("n3"), 9, json!({})),
            pod("young-ready", true, Some("n4"), 5, json!({})),
            pod("crowded", true, Some("n1"), 3, json!({})),
        ];
        sort_for_deletion(&mut pods);
        let names: Vec<_> = pods.iter().map(|p| p.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["pending", "unready", "cheap", "crowded", "old-ready", "young-ready"]);
    }

    #[test]
    fn available_after_being_ready_long_enough() {
        let pod = pod("a", true, Some("n"), 100, json!({}));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(is_available(&pod, 0, at(100)));
        assert!(!is_available(&pod, 10, at(109)));
        assert!(is_available(&pod, 10, at(110)));
        assert_eq!(next_available(std::slice::from_ref(&pod), 10, at(105)), Some(at(110)));
        assert_eq!(next_available(&[pod], 10, at(110)), None);
    }
}
