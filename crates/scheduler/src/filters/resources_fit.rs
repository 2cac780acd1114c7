//! What a pod requests must be free on the node.

use std::borrow::Cow;

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

pub struct ResourcesFit;

impl Filter for ResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        Some(Box::new(|node| check(pod, node)))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::POD_GONE
    }

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> String {
        let each = missing_resources(pod, node).into_iter().map(|missing| missing.remedy());
        each.collect::<Vec<_>>().join("; ")
    }
}

fn check(pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
    let wants = &pod.requests;
    let (used, has) = (&node.requested, &node.allocatable);
    let lacks = |wanted: i64, used: i64, has: i64| wanted > 0 && wanted > has - used;
    let fits = node.pod_count() < node.max_pods
        && !lacks(wants.cpu, used.cpu, has.cpu)
        && !lacks(wants.memory, used.memory, has.memory)
        && !lacks(wants.ephemeral_storage, used.ephemeral_storage, has.ephemeral_storage)
        && wants.others.iter().all(|(name, n)| !lacks(*n, used.other(name), has.other(name)));
    if fits {
        return Ok(());
    }
    let missing = missing_resources(pod, node);
    // More than an empty node has: no preemption can help.
    let pods_matter = missing.iter().all(|m| m.wanted <= m.allocatable);
    let reasons = missing.into_iter().map(|m| m.reason()).collect();
    Err(Refusal { reasons, pods_matter, everywhere: false })
}

/// A resource of which a node has too little left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub resource: String,
    pub wanted: i64,
    pub used: i64,
    pub allocatable: i64,
}

impl Missing {
    fn reason(&self) -> Cow<'static, str> {
        match self.resource.as_str() {
            "pods" => "Too many pods".into(),
            "cpu" => "Insufficient cpu".into(),
            "memory" => "Insufficient memory".into(),
            other => format!("Insufficient {other}").into(),
        }
    }
}

impl Missing {
    fn remedy(&self) -> String {
        let name = self.resource.as_str();
        if name == "pods" {
            return format!("remove one of the {} pods (the node takes {})", self.used, self.allocatable);
        }
        if self.allocatable <= 0 {
            return format!("the node has no {name} at all");
        }
        let free = (self.allocatable - self.used).max(0);
        format!(
            "request {} less {name} ({} wanted, {} of {} free)",
            amount(name, self.wanted - free),
            amount(name, self.wanted),
            amount(name, free),
            amount(name, self.allocatable),
        )
    }
}

/// As people write it: `250m`, `1536Mi`.
fn amount(resource: &str, value: i64) -> String {
    const UNITS: [(&str, i64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    match resource {
        "cpu" if value % 1000 == 0 => (value / 1000).to_string(),
        "cpu" => format!("{value}m"),
        "memory" | "ephemeral-storage" => {
            let unit = UNITS.iter().find(|(_, size)| value != 0 && value % size == 0);
            unit.map_or(value.to_string(), |(unit, size)| format!("{}{unit}", value / size))
        }
        _ => value.to_string(),
    }
}

/// Everything a node lacks for a pod.
pub fn missing_resources(pod: &PodInfo, node: &NodeInfo) -> Vec<Missing> {
    let (wants, used, has) = (&pod.requests, &node.requested, &node.allocatable);
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut all = vec![
        ("pods", 1, count(node.pod_count()), count(node.max_pods)),
        ("cpu", wants.cpu, used.cpu, has.cpu),
        ("memory", wants.memory, used.memory, has.memory),
        ("ephemeral-storage", wants.ephemeral_storage, used.ephemeral_storage, has.ephemeral_storage),
    ];
    all.extend(wants.others.iter().map(|(name, n)| (&**name, *n, used.other(name), has.other(name))));
    all.into_iter()
        .filter(|(_, wanted, used, has)| *wanted > 0 && *wanted > has - used)
        .map(|(name, wanted, used, allocatable)| Missing {
            resource: name.to_owned(),
            wanted,
            used,
            allocatable,
        })
        .collect()
}
