//! How long the discovery page of a large cluster takes, from stored bytes to the page: reading, targets, JSON.
//! Run with `cargo run --release -p minik8s-monitoring --example discovery_bench [PODS]`.

#![allow(clippy::unwrap_used, reason = "a measurement may panic")]

use std::time::Instant;

use minik8s_monitoring::discovery::{Kind, Objects, Role, Selection};
use serde_json::{Value, json};

const ROUNDS: usize = 9;

fn main() {
    let pods: usize = std::env::args().nth(1).map_or(5_000, |count| count.parse().unwrap());
    let stored: Vec<Vec<u8>> = (0..pods).map(|number| serde_json::to_vec(&pod(number)).unwrap()).collect();
    let bytes: usize = stored.iter().map(Vec::len).sum();
    println!("{pods} pods, {} KiB stored", bytes / 1024);
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let read: Vec<Value> = stored.iter().map(|pod| serde_json::from_slice(pod).unwrap()).collect();
        let reading = begun.elapsed();
        let mut objects = Objects::default();
        objects.put(Kind::Pod, read);
        let page = Role::Pod.page(&objects, &Selection::default());
        took.push((begun.elapsed(), reading, page.len()));
    }
    took.sort();
    let (whole, reading, size) = took[ROUNDS / 2];
    println!("page of {} KiB: {whole:.1?} (median of {ROUNDS}), of which reading {reading:.1?}", size / 1024);
}

fn pod(number: usize) -> Value {
    let name = format!("web-7d4b9c6f5d-{number:05}");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": format!("team-{}", number % 50),
            "uid": format!("2f6c1d9e-0000-4000-8000-{number:012}"), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d", "tier": "front"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9100"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d",
                "uid": "u", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"nodeName": format!("node-{}", number % 100), "serviceAccountName": "default",
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "containers": [{"name": "web", "image": "registry.example/web:1.2.3", "imagePullPolicy": "IfNotPresent",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"},
                    {"name": "metrics", "containerPort": 9100, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
        "status": {"phase": "Running", "podIP": format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255),
            "hostIP": "192.0.2.1", "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}],
            "containerStatuses": [{"name": "web", "containerID": format!("containerd://{number:064}"), "ready": true,
                "restartCount": 0, "image": "registry.example/web:1.2.3",
                "state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}}}]}})
}
