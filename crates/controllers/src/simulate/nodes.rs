//! The Node objects and their heartbeats.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches};
use serde_json::{Value, json};

use super::LABEL;

const LEASES: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;
/// Rarely, for a thousand nodes beat a thousand times.
const BEAT: SignedDuration = SignedDuration::from_secs(20);

pub struct SimulatedNodes {
    pub count: usize,
    pub pods_per_node: u32,
}

pub struct Observed {
    name: String,
    node: Option<Arc<Node>>,
    lease: Option<Arc<Lease>>,
}

impl Controller for SimulatedNodes {
    type Key = usize;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "simulated-nodes"
    }

    fn watch(&self, watches: &Watches<usize>) {
        let count = self.count;
        watches.on::<Node>(move |_, node| {
            let name = node.metadata.name.as_deref().unwrap_or("");
            number(name).filter(|number| *number < count).into_iter().collect()
        });
        watches.needs::<Lease>();
        let sink = watches.sink();
        (0..count).for_each(|number| sink(number));
    }

    fn observe(&self, caches: &Caches, number: &usize) -> Option<Observed> {
        let name = name(*number);
        let node = caches.of::<Node>().get(&Key::new("", &*name));
        let lease = caches.of::<Lease>().get(&Key::new(LEASES, &*name));
        Some(Observed { name, node, lease })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let Some(node) = &seen.node else {
            let node: Node = from(node_object(&seen.name));
            plan.act(Action::create(&node));
            return plan;
        };
        let ready = node.status.as_ref().and_then(|s| s.conditions.as_ref());
        if !ready.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True") {
            plan.act(Action::patch_status(&**node, status(&seen.name, self.pods_per_node, now)));
        }
        let renewed = seen.lease.as_ref().and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
        let due = renewed.map_or(now, |time| time.0 + BEAT);
        if due > now {
            plan.again_at(due, now);
            return plan;
        }
        plan.again_at(now + BEAT, now);
        let spec = json!({
            "holderIdentity": seen.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": MicroTime(now),
        });
        plan.act(match &seen.lease {
            Some(lease) => Action::patch(&**lease, json!({ "spec": spec })),
            None => {
                let meta = json!({"name": seen.name, "namespace": LEASES});
                Action::create(&from::<Lease>(json!({"metadata": meta, "spec": spec})))
            }
        });
        plan
    }

    fn workers(&self) -> usize {
        32
    }
}

fn name(number: usize) -> String {
    format!("sim-{number:04}")
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix("sim-")?.parse().ok()
}

fn node_object(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {
        LABEL: "true",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }}})
}

fn status(name: &str, pods: u32, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let amounts =
        json!({"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": pods.to_string()});
    let condition = |kind: &str, is: &str, reason: &str| json!({"type": kind, "status": is, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now});
    json!({
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.37.0-simulated",
            "containerRuntimeVersion": "none://0", "kernelVersion": "", "osImage": "simulated",
            "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
        },
    })
}

fn from<K: minik8s_runtime::Object>(value: Value) -> K {
    serde_json::from_value(value).expect("written here, and tested")
}
