//! Claims to devices, through the whole scheduler without IO: events in, effects out.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::serde::de::DeserializeOwned;
use minik8s_scheduler::{Effect, Event, Scheduler, Strategy};
use serde_json::{Value, json};

struct Cluster {
    scheduler: Scheduler,
    now: Instant,
}

fn read<K: DeserializeOwned>(object: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(object).unwrap())
}

impl Cluster {
    /// Two nodes with one device each.
    fn new() -> Self {
        let scheduler = Scheduler::new("default-scheduler", Strategy::Balanced, 1);
        let mut cluster = Cluster { scheduler, now: Instant::now() };
        for name in ["a", "b"] {
            let status = json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                "conditions": [{"type": "Ready", "status": "True"}]});
            let node = json!({"metadata": {"name": name}, "spec": {}, "status": status});
            cluster.see(Event::Node((None, Some(read(node)))));
            let spec = json!({"driver": "gpu.example", "nodeName": name, "devices": [{"name": "gpu"}],
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}});
            let slice = json!({"metadata": {"name": name}, "spec": spec});
            cluster.see(Event::Slice((None, Some(read(slice)))));
        }
        let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
        cluster.see(Event::DeviceClass((None, Some(read(class)))));
        cluster
    }

    fn see(&mut self, event: Event) {
        self.scheduler.handle(event, self.now);
    }

    fn claim(&mut self, name: &str, status: Value) {
        let spec = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
        let claim = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec, "status": status});
        self.see(Event::DeviceClaim((None, Some(read(claim)))));
    }

    fn pod(&mut self, name: &str, claim: &str) {
        let spec = json!({"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]});
        let pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec});
        self.see(Event::Pod((None, Some(read(pod)))));
    }

    /// What comes next: `POD on NODE with DEVICES`, or why not.
    fn next(&mut self) -> String {
        self.now += Duration::from_secs(30);
        let effects = self.scheduler.step(self.now).unwrap_or_default();
        let shown = effects.iter().map(|effect| match effect {
            Effect::Bind { pod, node, reservations, .. } => {
                let devices = reservations.iter().map(|one| match &one.allocation {
                    Some(allocation) => {
                        let results = allocation.devices.as_ref().unwrap().results.as_ref().unwrap();
                        results.iter().map(|result| result.pool.clone()).collect::<Vec<_>>().join(",")
                    }
                    None => "what it has".to_owned(),
                });
                format!("{} on {node} with {}", pod.key.name, devices.collect::<Vec<_>>().join(","))
            }
            Effect::Explain { message, .. } => message.split(" preemption").next().unwrap().to_owned(),
            Effect::Deallocate { claim, .. } => {
                format!("deallocate {}", claim.metadata.name.as_deref().unwrap())
            }
            other => format!("{other:?}"),
        });
        shown.collect::<Vec<_>>().join("; ")
    }
}

fn allocated(node: &str, user: &str) -> Value {
    let result = json!({"request": "r", "driver": "gpu.example", "pool": node, "device": "gpu"});
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let allocation = json!({"devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}});
    json!({"allocation": allocation, "reservedFor": [{"resource": "pods", "name": user, "uid": user}]})
}

#[test]
fn device_is_taken_before_the_claim_says_so() {
    let mut cluster = Cluster::new();
    for name in ["one", "two", "three"] {
        cluster.claim(name, json!({}));
        cluster.pod(&format!("pod-{name}"), name);
    }
    let (first, second) = (cluster.next(), cluster.next());
    let mut places = [first, second];
    places.sort();
    let on = |pod: &str, node: &str| format!("{pod} on {node} with {node}");
    let either = [on("pod-one", "a"), on("pod-two", "b")];
    let other = [on("pod-one", "b"), on("pod-two", "a")];
    assert!(places == either || places == other, "{places:?}");
    let shortage = "request r of three wants a device of class gpu: 0 of 1 that match are free";
    assert_eq!(cluster.next(), format!("0/2 nodes are available: 2 cannot allocate all claims: {shortage}."));
    // A claim that gives its device back wakes who waits for it.
    let gone = json!({"metadata": {"name": "one", "namespace": "ns", "uid": "one"}, "spec": {}});
    cluster.see(Event::DeviceClaim((Some(read(gone)), None)));
    assert!(cluster.next().starts_with("pod-three on "), "it is free again");
}

#[test]
fn pod_goes_where_its_claim_has_devices() {
    let mut cluster = Cluster::new();
    cluster.claim("shared", allocated("b", "somebody"));
    cluster.pod("second", "shared");
    assert_eq!(cluster.next(), "second on b with what it has");
}

#[test]
fn missing_and_deleted_claims_are_told() {
    let mut cluster = Cluster::new();
    cluster.pod("p", "nothing");
    assert_eq!(cluster.next(), "0/2 nodes are available: resourceclaim \"nothing\" not found.");
    cluster.claim("nothing", json!({}));
    assert!(cluster.next().starts_with("p on "), "the claim wakes it");
}

#[test]
fn devices_that_lead_nowhere_are_given_back() {
    let mut cluster = Cluster::new();
    cluster.claim("own", allocated("gone", "p"));
    cluster.pod("p", "own");
    assert_eq!(
        cluster.next(),
        "deallocate own; 0/2 nodes are available: 2 resourceclaim not available on the node."
    );
    cluster.claim("own", json!({}));
    assert!(cluster.next().starts_with("p on "));
}

#[test]
fn pod_waits_unseen_until_its_claims_are_made() {
    let mut cluster = Cluster::new();
    let spec =
        json!({"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]});
    let mut pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": spec});
    cluster.see(Event::Pod((None, Some(read(pod.clone())))));
    assert_eq!(cluster.next(), "", "nothing is told");
    let metadata = json!({"name": "made", "namespace": "ns", "uid": "made",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}]});
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
    let claim = json!({"metadata": metadata, "spec": spec});
    cluster.see(Event::DeviceClaim((None, Some(read(claim)))));
    let before = read(pod.clone());
    pod["status"] = json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]});
    cluster.see(Event::Pod((Some(before), Some(read(pod)))));
    assert!(cluster.next().starts_with("p on "));
}
