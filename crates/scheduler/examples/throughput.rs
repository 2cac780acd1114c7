//! `make bench`, the scheduler's part: pods placed per second in process, without the API around it.
//!
//! Every pod takes the way of a real one: it is seen, waits in the queue, is decided about, and its binding
//! comes back as a changed pod. Usage: `throughput [NAME]` measures only the cases whose name contains NAME.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{Node, Pod};
use minik8s_scheduler::{Effect, Event, Scheduler, Strategy};
use serde_json::{Value, json};

struct Case {
    name: &'static str,
    nodes: usize,
    pods: usize,
    wanted: f64,
    spec: fn(usize) -> Value,
}

const CASES: &[Case] = &[
    Case { name: "plain, 1,000 nodes", nodes: 1_000, pods: 30_000, wanted: 10_000.0, spec: |_| json!({}) },
    Case { name: "plain, 5,000 nodes", nodes: 5_000, pods: 10_000, wanted: 1_500.0, spec: |_| json!({}) },
    Case { name: "anti-affinity, 1,000 nodes", nodes: 1_000, pods: 5_000, wanted: 2_000.0, spec: apart },
    Case { name: "anti-affinity, 5,000 nodes", nodes: 5_000, pods: 5_000, wanted: 1_500.0, spec: apart },
    Case { name: "affinity, 1,000 nodes", nodes: 1_000, pods: 5_000, wanted: 2_000.0, spec: together },
    Case { name: "topology spread, 1,000 nodes", nodes: 1_000, pods: 5_000, wanted: 2_000.0, spec: spread },
];

fn main() -> Result<(), serde_json::Error> {
    let only = std::env::args().nth(1).unwrap_or_default();
    println!("| Scheduler in process | pods/s | Target |\n|---|---|---|");
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        println!("| {} | {:.0} | ≥ {} |", case.name, measure(case)?, case.wanted);
    }
    Ok(())
}

fn measure(case: &Case) -> Result<f64, serde_json::Error> {
    let now = Instant::now();
    let mut scheduler = Scheduler::new("default-scheduler", Strategy::Balanced, 1);
    for i in 0..case.nodes {
        scheduler.handle(Event::Node((None, Some(Arc::new(node(i)?)))), now);
    }
    let pods = (0..case.pods).map(|i| Ok(Arc::new(pod(i, (case.spec)(i))?)));
    let pods: Vec<Arc<Pod>> = pods.collect::<Result<_, serde_json::Error>>()?;
    let started = Instant::now();
    for pod in pods {
        scheduler.handle(Event::Pod((None, Some(pod))), now);
    }
    let mut placed = 0;
    while let Some(effects) = scheduler.step(now) {
        for effect in effects {
            let Effect::Bind { pod, node, .. } = effect else { continue };
            let mut bound = (*pod.pod).clone();
            bound.spec.get_or_insert_default().node_name = Some(node);
            let change = (Some(pod.pod.clone()), Some(Arc::new(bound)));
            black_box(scheduler.handle(Event::Pod(change), now));
            placed += 1;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(placed, case.pods, "every pod of this measurement has a place");
    Ok(f64::from(u32::try_from(placed).unwrap_or(u32::MAX)) / seconds)
}

fn node(i: usize) -> Result<Node, serde_json::Error> {
    let name = format!("node-{i}");
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": format!("zone-{}", i % 10),
        }},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
}

fn pod(i: usize, spec: Value) -> Result<Pod, serde_json::Error> {
    let mut pod = json!({
        "metadata": {"name": format!("pod-{i}"), "namespace": "default", "uid": format!("uid-{i}"),
                     "labels": {"app": "web", "group": format!("g{}", i / 500)}},
        "spec": {"containers": [{"name": "c", "image": "example/image:1",
                 "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}]},
    });
    if let (Some(target), Value::Object(more)) = (pod["spec"].as_object_mut(), spec) {
        target.extend(more);
    }
    serde_json::from_value(pod)
}

/// Groups of 500 whose members each want a node of their own.
fn apart(i: usize) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"group": format!("g{}", i / 500)}}},
    ]}}})
}

/// Groups of 500 whose members each want to share a zone.
fn together(i: usize) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"group": format!("g{}", i / 500)}}},
    ]}}})
}

fn spread(i: usize) -> Value {
    json!({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"group": format!("g{}", i / 500)}}},
    ]})
}
