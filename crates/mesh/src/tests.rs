//! The controller in a world in memory.

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_meta::mesh::{
    MeshAck, MeshRoute, NODE_PROXY, PROGRAMMED, RESOLVED_REFS, SIDECAR, SIDECAR_IMAGE, Subset, VirtualService,
};
use minik8s_runtime::Key;
use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controller::VirtualServiceController;

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn virtual_service(name: &str, uid: &str, created: &str) -> VirtualService {
    from(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "generation": 1, "creationTimestamp": created},
        "spec": {"serviceRef": "reviews", "port": 80, "subsets": [{"name": "v1", "weight": 1}]},
    }))
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

/// A Service of one pod, whose proxy runs on node-1.
fn world() -> World {
    let mut world = World::default();
    world.insert::<Service>(&from(json!({"metadata": {"name": "reviews", "namespace": "ns"},
        "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}]}})));
    world.insert::<EndpointSlice>(&from(json!({"addressType": "IPv4", "ports": [{"port": 9080}],
        "metadata": {"name": "reviews-1", "namespace": "ns", "labels": {"kubernetes.io/service-name": "reviews"}},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": "a"}}]})));
    world.insert::<Subset>(&from(
        json!({"metadata": {"name": "v1", "namespace": "ns"}, "spec": {"pods": ["a"]}}),
    ));
    world.insert::<Pod>(&from(json!({"metadata": {"name": "a", "namespace": "ns", "uid": "a"},
        "spec": {"nodeName": "node-1", "containers": [],
            "initContainers": [{"name": SIDECAR, "image": SIDECAR_IMAGE}]},
        "status": {"initContainerStatuses": [{"name": SIDECAR, "image": SIDECAR_IMAGE, "imageID": "", "ready": true,
            "restartCount": 0, "started": true, "state": {"running": {}}}]}})));
    world
}

fn build() -> Simulation {
    let mut world = world();
    world.insert(&virtual_service("x", "u", EARLY));
    Simulation::new(world).with(VirtualServiceController)
}

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

fn condition(simulation: &Simulation, name: &str, kind: &str) -> (String, String) {
    let object: VirtualService = simulation.world.get(&key(name)).unwrap();
    let conditions = object.status.unwrap().conditions;
    let found = conditions.into_iter().find(|condition| condition.type_ == kind).unwrap();
    (found.status, found.reason)
}

fn said(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn virtual_service_becomes_a_route() {
    check_convergence(build, |simulation| {
        let route: MeshRoute = simulation.world.get(&key("x")).unwrap();
        assert_eq!(route.spec.addresses, ["10.96.0.5:80"]);
        assert_eq!(route.spec.rules[0].endpoints[0].address, "10.0.0.1:9080");
        assert_eq!(condition(simulation, "x", PROGRAMMED), said("False", "Waiting"));
        assert_eq!(condition(simulation, "x", RESOLVED_REFS), said("True", "ResolvedRefs"));
    });
}

/// Only the word of the proxy's own node, about the newest revision, counts.
#[test]
fn programmed_waits_for_every_proxy() {
    let mut simulation = build();
    simulation.settle().unwrap();
    let route: MeshRoute = simulation.world.get(&key("x")).unwrap();
    let mut ack = |name: &str, revision: &str, waiting: &[&str]| {
        let ack: MeshAck = from(json!({"metadata": {"name": name, "namespace": "ns"},
            "spec": {"revision": revision, "waiting": waiting}}));
        match simulation.world.get::<MeshAck>(&key(name)) {
            Some(_) => simulation.world.change::<MeshAck>(&key(name), |known| known.spec = ack.spec),
            None => drop(simulation.world.insert(&ack)),
        }
        simulation.settle().unwrap();
        condition(&simulation, "x", PROGRAMMED).0
    };
    assert_eq!(ack("virtualservice-x.node-1", "of old", &[]), "False");
    assert_eq!(ack("virtualservice-x.node-2", &route.spec.revision, &[]), "False");
    assert_eq!(ack("virtualservice-x.node-1", &route.spec.revision, &["ns/a"]), "False");
    assert_eq!(ack("virtualservice-x.node-1", &route.spec.revision, &[]), "True");
    let object: VirtualService = simulation.world.get(&key("x")).unwrap();
    let proxies = object.status.unwrap().proxies;
    assert_eq!((proxies.total, proxies.applied, proxies.waiting_for), (1, 1, vec![]));
}

fn node(name: &str, ready: &str) -> Node {
    from(json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
}

/// Programmed, and how many of how many proxies have applied it, after a change.
fn programmed(simulation: &mut Simulation) -> (String, i32, i32) {
    simulation.settle().unwrap();
    let object: VirtualService = simulation.world.get(&key("x")).unwrap();
    let proxies = object.status.unwrap().proxies;
    (condition(simulation, "x", PROGRAMMED).0, proxies.applied, proxies.total)
}

#[test]
fn proxies_of_a_node_that_is_not_ready_do_not_count() {
    let mut simulation = build();
    simulation.world.insert(&node("node-1", "True"));
    assert_eq!(programmed(&mut simulation), ("False".to_owned(), 0, 1));
    simulation.world.change::<Node>(&Key::new("", "node-1"), |one| one.status = node("", "Unknown").status);
    assert_eq!(programmed(&mut simulation), ("True".to_owned(), 0, 0));
    simulation.world.change::<Node>(&Key::new("", "node-1"), |one| one.status = node("", "True").status);
    assert_eq!(programmed(&mut simulation), ("False".to_owned(), 0, 1), "it is heard of again");
}

/// Clients without a proxy are led by rules of the node, which may fail.
#[test]
fn programmed_waits_for_the_proxies_of_nodes() {
    let mut simulation = build();
    for name in ["node-1", "node-2"] {
        simulation.world.insert(&node(name, "True"));
    }
    simulation.settle().unwrap();
    let revision = simulation.world.get::<MeshRoute>(&key("x")).unwrap().spec.revision;
    let ack = |name: &str, waiting: &[&str]| -> MeshAck {
        from(json!({"metadata": {"name": name, "namespace": "ns"},
            "spec": {"revision": revision, "waiting": waiting}}))
    };
    simulation.world.insert(&ack("virtualservice-x.node-1", &[]));
    simulation.world.insert(&ack("virtualservice-x.node-2", &[NODE_PROXY]));
    assert_eq!(programmed(&mut simulation), ("False".to_owned(), 1, 2));
    let object: VirtualService = simulation.world.get(&key("x")).unwrap();
    let waiting = object.status.unwrap().proxies.waiting_for;
    assert_eq!((waiting[0].pod.as_str(), waiting[0].node.as_str()), (NODE_PROXY, "node-2"));
    simulation.world.delete::<Node>(&Key::new("", "node-2"));
    assert_eq!(programmed(&mut simulation), ("True".to_owned(), 1, 1), "a node that is gone");
}

#[test]
fn older_object_wins_and_the_younger_says_so() {
    let mut simulation = build();
    simulation.world.insert(&virtual_service("a-younger", "v", LATE));
    simulation.settle().unwrap();
    assert_eq!(condition(&simulation, "a-younger", "Accepted"), said("False", "Conflict"));
    assert_eq!(condition(&simulation, "x", "Accepted"), said("True", "Accepted"));
    assert!(simulation.world.get::<MeshRoute>(&key("a-younger")).is_none());
    simulation.world.delete::<VirtualService>(&key("x"));
    simulation.settle().unwrap();
    assert_eq!(condition(&simulation, "a-younger", "Accepted"), said("True", "Accepted"));
}

#[test]
fn route_goes_with_its_service() {
    let mut simulation = build();
    simulation.settle().unwrap();
    simulation.world.delete::<Service>(&key("reviews"));
    simulation.settle().unwrap();
    assert_eq!(condition(&simulation, "x", RESOLVED_REFS), said("False", "NoService"));
    assert!(simulation.world.get::<MeshRoute>(&key("x")).is_none());
}
