//! What a kubelet would say about its pods, without doing any of it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches, key_of};
use serde_json::{Value, json};

use super::LABEL;
use super::pod::PodSummary;
use crate::hash::fnv1a;

/// A pod with this annotation ends after so many seconds.
pub const RUN_SECONDS: &str = "minik8s.io/run-seconds";
/// And with this code, 0 if it is not given.
pub const EXIT_CODE: &str = "minik8s.io/exit-code";

pub struct SimulatedPods;

impl Controller for SimulatedPods {
    type Key = Key;
    type Observed = Arc<PodSummary>;

    fn name(&self) -> &'static str {
        "simulated-kubelet"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<PodSummary>();
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            // Pods may have been seen before their node.
            let Some((caches, node)) = caches.upgrade().zip(new.filter(|_| old.is_none())) else {
                return Vec::new();
            };
            let pods = caches.of::<PodSummary>().list();
            let here = pods.iter().filter(|pod| pod.node_name() == node.metadata.name.as_deref());
            here.map(|pod| key_of(&**pod)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Arc<PodSummary>> {
        let pod = caches.of::<PodSummary>().get(key)?;
        let node = caches.of::<Node>().get(&Key::new("", pod.node_name()?))?;
        let labels = node.metadata.labels.as_ref()?;
        labels.contains_key(LABEL).then_some(pod)
    }

    fn plan(&self, pod: &Arc<PodSummary>, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if pod.metadata.deletion_timestamp.is_some() {
            if !pod.is_finished() && pod.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty()) {
                plan.act(Action::patch_status(&**pod, ended(pod, 143, now)));
            }
            if pod.metadata.deletion_grace_period_seconds != Some(0) {
                plan.act(Action::delete(&**pod).with_grace(0));
            }
            return plan;
        }
        if pod.is_finished() {
            return plan;
        }
        if !pod.is_running() {
            plan.act(Action::patch_status(&**pod, running(pod, now)));
            return plan;
        }
        let started = pod.status.start_time.as_ref().map_or(now, |t| t.0);
        let annotations = pod.metadata.annotations.as_ref();
        let number = |key: &str| annotations.and_then(|a| a.get(key)).and_then(|v| v.parse::<i64>().ok());
        if let Some(seconds) = number(RUN_SECONDS) {
            let end = started + SignedDuration::from_secs(seconds.clamp(0, 1_000_000));
            if end > now {
                plan.again_at(end, now);
            } else {
                plan.act(Action::patch_status(&**pod, ended(pod, number(EXIT_CODE).unwrap_or(0), now)));
            }
        }
        plan
    }

    fn workers(&self) -> usize {
        64
    }
}

fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Of 16 million addresses one that hardly any other pod has.
fn address(pod: &PodSummary) -> String {
    let [_, a, b, c] = fnv1a(pod.uid().as_bytes()).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

fn conditions(pod: &PodSummary, ready: &str, reason: Option<&str>, now: Timestamp) -> Vec<Value> {
    let known = pod.status.conditions.iter().flatten();
    let ours = ["Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"];
    let mut all: Vec<Value> = known.filter(|c| !ours.contains(&c.type_.as_str())).map(|c| json!(c)).collect();
    for kind in ours {
        let is = if kind == "Initialized" { "True" } else { ready };
        all.push(json!({"type": kind, "status": is, "reason": reason, "lastTransitionTime": time(now)}));
    }
    all
}

fn containers(pod: &PodSummary, state: &Value, ready: bool) -> Vec<Value> {
    let status = pod.spec.containers.iter().map(|container| {
        json!({
            "name": container.name,
            "image": container.image.clone().unwrap_or_default(),
            "imageID": "",
            "containerID": format!("simulated://{}", pod.uid()),
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        })
    });
    status.collect()
}

fn running(pod: &PodSummary, now: Timestamp) -> Value {
    let address = address(pod);
    json!({
        "phase": "Running",
        "startTime": time(now),
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions(pod, "True", None, now),
        "containerStatuses": containers(pod, &json!({"running": {"startedAt": time(now)}}), true),
    })
}

fn ended(pod: &PodSummary, code: i64, now: Timestamp) -> Value {
    let (phase, reason) = if code == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    let state = json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": time(now)}});
    json!({
        "phase": phase,
        "conditions": conditions(pod, "False", Some(if code == 0 { "PodCompleted" } else { "PodFailed" }), now),
        "containerStatuses": containers(pod, &state, false),
    })
}
