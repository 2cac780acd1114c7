//! The taints that follow from a node's conditions.

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::placement::covers;

use super::conditions::get;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

pub(super) fn of(node: &Node) -> Vec<Taint> {
    node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

pub(super) fn has_no_execute(node: &Node) -> bool {
    of(node).iter().any(|taint| taint.effect == "NoExecute")
}

/// All taints the node should have: those of others as they are, with their time; ours as its conditions demand.
pub(super) fn wanted(node: &Node, may_evict: bool, now: Timestamp) -> Vec<Taint> {
    let have = of(node);
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match get(node, "Ready").map(|c| c.status.as_str()) {
        Some("True") => {}
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        Some(_) => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        // It has just joined.
        None => wanted.push((NOT_READY, "NoSchedule")),
    }
    for (condition, taint) in PRESSURES {
        if get(node, condition).is_some_and(|c| c.status == "True") {
            wanted.push((taint, "NoSchedule"));
        }
    }
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted.retain(|(_, effect)| may_evict || *effect != "NoExecute");
    let is = |taint: &Taint, (key, effect): (&str, &str)| taint.key == key && taint.effect == effect;
    let mut taints: Vec<Taint> = have
        .iter()
        .filter(|taint| !is_ours(taint) || wanted.iter().any(|wanted| is(taint, *wanted)))
        .cloned()
        .map(|taint| with_time(taint, now))
        .collect();
    for missing in wanted {
        if !have.iter().any(|taint| is(taint, missing)) {
            taints.push(Taint {
                key: missing.0.to_owned(),
                effect: missing.1.to_owned(),
                value: None,
                time_added: Some(Time(now)),
            });
        }
    }
    taints
}

/// Pods bear a taint for some time from its beginning, which people who taint a node do not write down.
fn with_time(mut taint: Taint, now: Timestamp) -> Taint {
    if taint.effect == "NoExecute" && taint.time_added.is_none() {
        taint.time_added = Some(Time(now));
    }
    taint
}

fn is_ours(taint: &Taint) -> bool {
    let keys = PRESSURES.iter().map(|(_, taint)| *taint).chain([NOT_READY, UNREACHABLE, UNSCHEDULABLE]);
    let no_execute = taint.effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
    no_execute || (taint.effect == "NoSchedule" && keys.into_iter().any(|key| key == taint.key))
}

/// For how long the tolerations bear a taint: not at all (None), for some seconds, or for ever.
pub(super) fn toleration_period(tolerations: &[Toleration], taint: &Taint) -> Option<TolerationPeriod> {
    let covering = tolerations.iter().filter(|toleration| covers(toleration, taint));
    let times: Vec<Option<i64>> = covering.map(|toleration| toleration.toleration_seconds).collect();
    match times.iter().flatten().min() {
        Some(seconds) => Some(TolerationPeriod::Seconds((*seconds).max(0))),
        None if times.is_empty() => None,
        None => Some(TolerationPeriod::Forever),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TolerationPeriod {
    Seconds(i64),
    Forever,
}
