//! Changing the resources of containers that run: what differs, and whether the node can give it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::conditions::PENDING;
use super::desired_pod::{ContainerSpec, DesiredPod, Kind};
use super::limits::{cpu_request, memory_request};
use super::local_state::LocalState;
use crate::cri::{ContainerRecord, PodRecord};
use crate::quantity;

/// The resources that can change while a container runs.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Whether the node can give a pod what it asks for now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Verdict {
    #[default]
    Allowed,
    /// Not beside the pods that are here.
    Deferred(String),
    /// Not even alone.
    Infeasible(String),
}

/// Requests and limits in a form that can be compared, and written on a container.
pub fn amounts(spec: &core::Container) -> String {
    let resources = spec.resources.clone().unwrap_or_default();
    let some = |map: Option<BTreeMap<String, Quantity>>| -> BTreeMap<String, Quantity> {
        map.unwrap_or_default().into_iter().filter(|(name, _)| RESIZABLE.contains(&name.as_str())).collect()
    };
    json!({"requests": some(resources.requests), "limits": some(resources.limits)}).to_string()
}

/// What a container was given: at its creation, or by this agent since.
pub fn applied<'a>(record: &'a ContainerRecord, local_state: &'a LocalState) -> &'a str {
    local_state.resized.get(&record.id).unwrap_or(&record.resources)
}

pub fn parse(amounts: &str) -> Option<core::ResourceRequirements> {
    serde_json::from_str(amounts).ok()
}

/// A running container has other resources than its spec says.
pub fn differs(spec: &ContainerSpec, record: &ContainerRecord, local_state: &LocalState) -> bool {
    let known = applied(record, local_state);
    spec.kind != Kind::Ephemeral && record.is_running() && !known.is_empty() && known != spec.resources
}

pub fn pod_differs(desired_pod: &DesiredPod, record: &PodRecord, local_state: &LocalState) -> bool {
    desired_pod.containers.iter().any(|spec| {
        record.container(&spec.spec.name).is_some_and(|container| differs(spec, container, local_state))
    })
}

/// The container wants to be restarted when one of the resources that changed does.
pub fn wants_restart(spec: &ContainerSpec, known: &str) -> bool {
    let (Some(old), Some(new)) = (parse(known), parse(&spec.resources)) else { return false };
    let amount = |resources: &core::ResourceRequirements, name: &str| {
        let find = |map: &Option<BTreeMap<String, Quantity>>| map.as_ref().and_then(|m| m.get(name)).cloned();
        (find(&resources.requests), find(&resources.limits))
    };
    let policies = spec.spec.resize_policy.iter().flatten();
    policies
        .filter(|policy| policy.restart_policy == "RestartContainer")
        .any(|policy| amount(&old, &policy.resource_name) != amount(&new, &policy.resource_name))
}

/// Thousandths of cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub cpu: i64,
    pub memory: i64,
}

/// What a pod takes of its node. One that asks for more than it got holds what it has, not what it asks for.
fn held(pod: &DesiredPod) -> Capacity {
    pending(pod).unwrap_or_else(|| Capacity { cpu: cpu_request(pod), memory: memory_request(pod) })
}

/// What a pod has whose resize the node could not give.
pub fn pending(pod: &DesiredPod) -> Option<Capacity> {
    let status = pod.pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    if !conditions.any(|condition| condition.type_ == PENDING) {
        return None;
    }
    let given = |name: &str, read: fn(&str) -> Option<i64>| {
        let containers = status.container_statuses.iter().flatten();
        let amounts =
            containers.filter_map(|c| c.allocated_resources.as_ref()?.get(name).and_then(|q| read(&q.0)));
        amounts.fold(0, i64::saturating_add)
    };
    Some(Capacity { cpu: given("cpu", quantity::milli), memory: given("memory", quantity::value) })
}

pub fn verdict<'a>(
    pod: &DesiredPod,
    others: impl Iterator<Item = &'a DesiredPod>,
    node: Capacity,
) -> Verdict {
    let wanted = Capacity { cpu: cpu_request(pod), memory: memory_request(pod) };
    let used =
        others.filter(|other| other.uid != pod.uid && !other.terminal).fold((0_i64, 0_i64), |sum, other| {
            let held = held(other);
            (sum.0.saturating_add(held.cpu), sum.1.saturating_add(held.memory))
        });
    for (name, wanted, used, capacity) in
        [("cpu", wanted.cpu, used.0, node.cpu), ("memory", wanted.memory, used.1, node.memory)]
    {
        if wanted > capacity {
            let text = format!(
                "Node didn't have enough capacity: {name}, requested: {wanted}, capacity: {capacity}"
            );
            return Verdict::Infeasible(text);
        }
        if used.saturating_add(wanted) > capacity {
            let text = format!(
                "Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {capacity}"
            );
            return Verdict::Deferred(text);
        }
    }
    Verdict::Allowed
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, resources: Value, policy: Value) -> DesiredPod {
        let pod = json!({"metadata": {"uid": uid},
            "spec": {"containers": [{"name": "a", "resources": resources, "resizePolicy": policy}]}});
        DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    #[test]
    fn what_a_node_can_give() {
        let node = Capacity { cpu: 1000, memory: 1000 };
        let check = |wanted: &str, used: &str, want: fn(&Verdict) -> bool| {
            let asks = |uid: &str, cpu: &str| pod(uid, json!({"requests": {"cpu": cpu}}), json!([]));
            let all = [asks("own", wanted), asks("other", used)];
            let got = verdict(&all[0], all.iter(), node);
            assert!(want(&got), "{wanted} beside {used}: {got:?}");
        };
        check("500m", "500m", |v| *v == Verdict::Allowed);
        check("600m", "500m", |v| matches!(v, Verdict::Deferred(_)));
        check("2", "0", |v| matches!(v, Verdict::Infeasible(_)));
    }

    #[test]
    fn what_another_pod_asks_for_in_vain_is_free() {
        let mut greedy =
            core::Pod::clone(&pod("greedy", json!({"requests": {"cpu": "1000"}}), json!([])).pod);
        let own = pod("own", json!({"requests": {"cpu": "700m"}}), json!([]));
        let node = Capacity { cpu: 1000, memory: 1000 };
        let beside =
            |other: &core::Pod| verdict(&own, [&DesiredPod::new(Arc::new(other.clone()))].into_iter(), node);
        assert!(matches!(beside(&greedy), Verdict::Deferred(_)));
        greedy.status = serde_json::from_value(json!({"conditions": [{"type": PENDING, "status": "True"}],
            "containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": {"cpu": "300m"}}]}))
        .unwrap();
        assert_eq!(beside(&greedy), Verdict::Allowed);
    }

    #[test]
    fn restarts() {
        let check = |old: Value, new: Value, want: bool| {
            let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
            let known = pod("p", old.clone(), policy.clone()).containers[0].resources.clone();
            let spec = &pod("p", new.clone(), policy).containers[0];
            assert_eq!(wants_restart(spec, &known), want, "{old} {new}");
        };
        let limits = |cpu: &str, memory: &str| json!({"limits": {"cpu": cpu, "memory": memory}});
        check(limits("1", "1Mi"), limits("2", "1Mi"), false);
        check(limits("1", "1Mi"), limits("1", "2Mi"), true);
    }

    #[test]
    fn other_resources_do_not_count() {
        let plain = pod("p", json!({"limits": {"cpu": "1"}}), json!([]));
        let more = pod("p", json!({"limits": {"cpu": "1", "ephemeral-storage": "1Gi"}}), json!([]));
        assert_eq!(plain.containers[0].resources, more.containers[0].resources);
        assert_eq!(parse(&plain.containers[0].resources).unwrap().limits.unwrap()["cpu"].0, "1");
    }
}
