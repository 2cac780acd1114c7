//! Limits of a pod as a whole, from those of its containers and the overhead of its runtime. Pure.

use k8s_openapi::api::core::v1::ResourceRequirements;

use super::desired_pod::{ContainerSpec, DesiredPod, Kind};
use crate::cgroup::PodLimits;
use crate::container::{cpu_quota, cpu_shares};
use crate::quantity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Requests,
    Limits,
}

/// Thousandths of a core that a pod asks for.
pub fn cpu_request(desired_pod: &DesiredPod) -> i64 {
    request(desired_pod, "cpu", quantity::milli)
}

/// Bytes that a pod asks for.
pub fn memory_request(desired_pod: &DesiredPod) -> i64 {
    request(desired_pod, "memory", quantity::value)
}

/// Bytes of the node's disk that a pod asks for.
pub fn disk_request(desired_pod: &DesiredPod) -> i64 {
    request(desired_pod, "ephemeral-storage", quantity::value)
}

/// A limit holds for the pod if it has one of its own, or if every container has one.
pub fn pod_limits(desired_pod: &DesiredPod, pids: Option<u32>) -> PodLimits {
    let all = |name: &str, read: fn(&str) -> Option<i64>| {
        let whole = of_whole(desired_pod, List::Limits, name, read).or_else(|| {
            let (sum, complete) = of_containers(desired_pod, List::Limits, name, read);
            sum.filter(|sum| complete && *sum > 0)
        });
        whole.map(|whole| whole.saturating_add(overhead(desired_pod, name, read)))
    };
    PodLimits {
        cpu_shares: cpu_shares(cpu_request(desired_pod)),
        cpu_quota: all("cpu", quantity::milli).map(cpu_quota),
        memory: all("memory", quantity::value),
        pids,
    }
}

/// Thousandths that all containers together ask for; None where none asks.
pub(super) fn asked_by_containers(desired_pod: &DesiredPod, name: &str) -> Option<i64> {
    of_containers(desired_pod, List::Requests, name, quantity::milli).0
}

/// The pod's own, or what its containers ask for, or else its own limit: the API server writes that into pods, but not into
/// static ones, and did not always.
fn request(desired_pod: &DesiredPod, name: &str, read: fn(&str) -> Option<i64>) -> i64 {
    let whole = of_whole(desired_pod, List::Requests, name, read)
        .or_else(|| of_containers(desired_pod, List::Requests, name, read).0)
        .or_else(|| of_whole(desired_pod, List::Limits, name, read));
    whole.unwrap_or(0).saturating_add(overhead(desired_pod, name, read))
}

/// What the pod says for all of its containers together.
fn of_whole(desired_pod: &DesiredPod, list: List, name: &str, read: fn(&str) -> Option<i64>) -> Option<i64> {
    let resources = desired_pod.spec()?.resources.as_ref()?;
    amount(resources, list, name).and_then(read).filter(|amount| *amount > 0)
}

/// What the pod's runtime needs for itself.
fn overhead(desired_pod: &DesiredPod, name: &str, read: fn(&str) -> Option<i64>) -> i64 {
    let all = desired_pod.spec().and_then(|spec| spec.overhead.as_ref());
    all.and_then(|all| read(&all.get(name)?.0)).unwrap_or(0).max(0)
}

/// The most that the containers need at any time: init containers run one after the other beside the sidecars
/// before them, main containers all at once beside all sidecars; None where no container says a number. And whether every
/// one does.
fn of_containers(
    desired_pod: &DesiredPod,
    list: List,
    name: &str,
    read: fn(&str) -> Option<i64>,
) -> (Option<i64>, bool) {
    let (mut any, mut complete) = (false, true);
    let mut amount_of = |spec: &ContainerSpec| {
        let resources = spec.spec.resources.as_ref();
        let found = resources.and_then(|own| match list {
            List::Limits => amount(own, list, name),
            // One asks for what it is limited to, unless it says less.
            List::Requests => amount(own, list, name).or_else(|| amount(own, List::Limits, name)),
        });
        let found = found.and_then(read);
        any |= found.is_some();
        complete &= found.is_some();
        found.unwrap_or(0).max(0)
    };
    let (mut sidecars, mut peak, mut main) = (0_i64, 0_i64, 0_i64);
    for spec in &desired_pod.containers {
        match spec.kind {
            Kind::Sidecar => sidecars = sidecars.saturating_add(amount_of(spec)),
            Kind::Init => peak = peak.max(sidecars.saturating_add(amount_of(spec))),
            Kind::Main => main = main.saturating_add(amount_of(spec)),
            Kind::Ephemeral => {}
        }
    }
    let most = peak.max(sidecars).max(main.saturating_add(sidecars));
    (any.then_some(most), complete)
}

fn amount<'a>(resources: &'a ResourceRequirements, list: List, name: &str) -> Option<&'a str> {
    let map = match list {
        List::Limits => &resources.limits,
        List::Requests => &resources.requests,
    };
    map.as_ref()?.get(name).map(|quantity| quantity.0.as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, want: PodLimits) {
        let pod = json!({"metadata": {}, "spec": spec});
        let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
        assert_eq!(pod_limits(&desired_pod, Some(100)), want, "{spec}");
    }

    #[test]
    fn sums() {
        let limits = |cpu: &str, memory: &str| json!({"limits": {"cpu": cpu, "memory": memory}});
        let base = || PodLimits { cpu_shares: 2, pids: Some(100), ..PodLimits::default() };
        check(json!({"containers": [{"name": "a"}]}), base());
        check(
            json!({"containers": [{"name": "a", "resources": limits("500m", "1Mi")}, {"name": "b", "resources": limits("1", "1Mi")}]}),
            PodLimits { cpu_shares: 1536, cpu_quota: Some(150_000), memory: Some(2 << 20), ..base() },
        );
        check(
            json!({"containers": [{"name": "a", "resources": limits("500m", "1Mi")}, {"name": "b"}]}),
            PodLimits { cpu_shares: 512, ..base() },
        );
        check(
            json!({"containers": [{"name": "a", "resources": limits("500m", "1Mi")}],
                "initContainers": [
                    {"name": "side", "restartPolicy": "Always", "resources": limits("250m", "1Mi")},
                    {"name": "i", "resources": limits("2", "4Mi")}]}),
            PodLimits { cpu_shares: 2304, cpu_quota: Some(225_000), memory: Some(5 << 20), ..base() },
        );
    }

    #[test]
    fn what_is_said_for_the_whole_pod_holds_for_it() {
        let containers =
            json!([{"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "1Mi"}}}, {"name": "b"}]);
        let check = |resources: Value, want: PodLimits| {
            check(
                json!({"containers": containers, "resources": resources, "overhead": {"memory": "1Mi"}}),
                want,
            );
        };
        let base = || PodLimits { cpu_shares: 512, pids: Some(100), ..PodLimits::default() };
        check(Value::Null, base());
        check(
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "3Mi"}}),
            PodLimits { cpu_shares: 1024, cpu_quota: Some(200_000), memory: Some(4 << 20), ..base() },
        );
        check(
            json!({"limits": {"cpu": "2"}}),
            PodLimits { cpu_shares: 512, cpu_quota: Some(200_000), ..base() },
        );
        check(json!({"requests": {"memory": "1Gi"}}), base());
        self::check(
            json!({"containers": [{"name": "a"}], "resources": {"limits": {"cpu": "2"}}}),
            PodLimits { cpu_shares: 2048, cpu_quota: Some(200_000), ..base() },
        );
    }

    #[test]
    fn overhead_comes_on_top_of_what_is_limited() {
        let limits = |limits: Value| json!({"name": "a", "resources": {"limits": limits}});
        let overhead = json!({"cpu": "250m", "memory": "1Mi"});
        check(
            json!({"containers": [limits(json!({"cpu": "500m"}))], "overhead": overhead}),
            PodLimits { cpu_shares: 768, cpu_quota: Some(75_000), memory: None, pids: Some(100) },
        );
        check(
            json!({"containers": [limits(json!({"memory": "1Mi"}))], "overhead": overhead}),
            PodLimits { cpu_shares: 256, cpu_quota: None, memory: Some(2 << 20), pids: Some(100) },
        );
    }
}
