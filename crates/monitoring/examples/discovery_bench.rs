//! How long the discovery page of a large cluster takes, from stored bytes to the page: reading, targets, JSON;
//! made anew, and from the pieces that are kept while somebody asks.
//! Run with `cargo run --release -p minik8s-monitoring --example discovery_bench [PODS]`.

#![allow(clippy::unwrap_used, reason = "a measurement may panic")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use minik8s_api::{Parse, ReadError, Stored, StoredObject};
use minik8s_monitoring::discovery::{Kind, Lists, Objects, Page, Rendered, Role, Selection};
use serde_json::{Value, json};

const ROUNDS: usize = 9;

/// Of so many pods one has changed since the last request.
const CHANGED: usize = 100;

fn main() {
    let pods: usize = std::env::args().nth(1).map_or(5_000, |count| count.parse().unwrap());
    let mut stored: Vec<Bytes> = (0..pods).map(bytes_of).collect();
    let bytes: usize = stored.iter().map(Bytes::len).sum();
    println!("{pods} pods, {} KiB stored", bytes / 1024);
    let (mut full, mut reading, mut size) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let read: Vec<Value> = stored.iter().map(|pod| serde_json::from_slice(pod).unwrap()).collect();
        reading.push(begun.elapsed());
        let mut objects = Objects::default();
        objects.put(Kind::Pod, read);
        size = Role::Pod.page(&objects, &Selection::default()).len();
        full.push(begun.elapsed());
    }
    println!(
        "page of {} KiB, made anew: {:.1?}, of which reading {:.1?}",
        size / 1024,
        median(full),
        median(reading)
    );
    let (mut rendered, mut versions, mut now) = (Rendered::default(), vec![1; pods], 1);
    let first = asked(&mut rendered, &stored, &versions, now);
    println!("the first page of pieces: {:.1?}", first.0);
    let (mut unchanged, mut changed, mut written) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        unchanged.push(asked(&mut rendered, &stored, &versions, now).0);
        now += 1;
        for number in (round..pods).step_by(CHANGED) {
            (stored[number], versions[number]) = (bytes_of(number), now);
        }
        let (took, page) = asked(&mut rendered, &stored, &versions, now);
        changed.push(took);
        written = page.written;
        assert_eq!(page.json.len(), size);
    }
    println!("with {written} pods changed: {:.1?}; with none: {:.1?}", median(changed), median(unchanged));
    println!("kept meanwhile: {} KiB (medians of {ROUNDS})", rendered.kept() / 1024);
}

fn asked(rendered: &mut Rendered, stored: &[Bytes], versions: &[u64], revision: u64) -> (Duration, Page) {
    let begun = Instant::now();
    let parse: Arc<Parse> = Arc::new(|object: &StoredObject| {
        serde_json::from_slice(&object.bytes).map_err(|error| ReadError(error.to_string()))
    });
    let object = |(number, (bytes, version)): (usize, (&Bytes, &u64))| {
        let key = format!("/registry/core/pods/team-{}/web-{number:05}", number % 50).into();
        StoredObject::new(key, 20, *version, bytes.clone(), parse.clone())
    };
    let objects = stored.iter().zip(versions).enumerate().map(object).collect();
    let mut lists = Lists::default();
    lists.put(Kind::Pod, Stored { revision, objects });
    let page = rendered.page(Role::Pod, &lists, &Selection::default()).unwrap();
    (begun.elapsed(), page)
}

fn bytes_of(number: usize) -> Bytes {
    serde_json::to_vec(&pod(number)).unwrap().into()
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
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
