//! The controller in a world in memory, with a pretended node.

use std::sync::atomic::{AtomicUsize, Ordering};

use minik8s_meta::mesh::{INBOUND_ENV, RequestTotals, SIDECAR, SIDECAR_IMAGE};
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence, set_pod_phase};
use serde_json::{Value, json};

use super::*;

fn proxy_container() -> Value {
    json!({"name": SIDECAR, "image": SIDECAR_IMAGE, "env": [{"name": INBOUND_ENV, "value": "1"}]})
}

/// Pods of image web:1, with proxies on node n1 if there is to be a mesh.
fn world(pods: usize, spec: Value, meshed: bool) -> World {
    let mut world = World::default();
    let service = json!({"metadata": {"name": "web", "namespace": "ns"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    world.insert::<Service>(&serde_json::from_value(service).unwrap());
    for number in 0..pods {
        let name = format!("old-{number}");
        let init = if meshed { json!([proxy_container()]) } else { json!(null) };
        let pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("u{number}"),
            "labels": {"app": "web", "tier": "front"}},
            "spec": {"nodeName": "n1", "initContainers": init, "containers": [{"name": "main", "image": "web:1"}]}});
        world.insert::<Pod>(&serde_json::from_value(pod).unwrap());
        set_pod_phase(&mut world, &Key::new("ns", name), "Running");
    }
    let mut all = json!({"serviceRef": "web", "port": 80, "minimumAlive": 2, "interval": 10,
        "images": {"main": "web:2"}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let update =
        json!({"metadata": {"name": "roll", "namespace": "ns", "uid": "r", "generation": 1}, "spec": all});
    world.insert::<RollingUpdate>(&serde_json::from_value(update).unwrap());
    world
}

fn build() -> Simulation {
    Simulation::new(world(3, json!({}), false))
        .with(RollingUpdateController)
        .with_actor(Kubelet::default().actor())
}

fn images(simulation: &Simulation) -> Vec<String> {
    let image = |pod: Pod| pod.spec.unwrap().containers[0].image.clone().unwrap();
    simulation.world.list::<Pod>().into_iter().map(image).collect()
}

fn status(simulation: &Simulation) -> RollingUpdateStatus {
    simulation.world.get::<RollingUpdate>(&Key::new("ns", "roll")).unwrap().status.unwrap()
}

/// Changes the update's spec, once a condition holds.
fn once(
    when: impl Fn(&World) -> bool + 'static,
    change: impl Fn(&mut World) + 'static,
) -> minik8s_runtime::testing::Actor {
    let done = std::cell::Cell::new(false);
    Box::new(move |world| {
        if done.get() || !when(world) {
            return false;
        }
        done.set(true);
        change(world);
        true
    })
}

fn made(world: &World, image: &str) -> usize {
    let is_it = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image);
    world.list::<Pod>().iter().filter(|pod| is_it(pod)).count()
}

#[test]
fn all_pods_are_replaced() {
    check_convergence(build, |simulation| {
        assert_eq!(images(simulation), ["web:2", "web:2", "web:2"]);
        let status = status(simulation);
        assert_eq!((status.phase.as_str(), status.total, status.updated), (plan::DONE, 3, 3));
        assert_eq!(status.history.iter().map(|batch| batch.number).collect::<Vec<_>>(), [1, 2, 3]);
        let kept = |pod: &Pod| pod.metadata.labels.as_ref().unwrap()["tier"] == "front";
        assert!(simulation.world.list::<Pod>().iter().all(kept), "images alone change");
    });
}

#[test]
fn never_fewer_than_the_minimum_are_ready() {
    let least = Arc::new(AtomicUsize::new(usize::MAX));
    let seen = least.clone();
    let counts = move |world: &mut World| {
        let ready = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let is_ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
            is_ready && pod.metadata.deletion_timestamp.is_none()
        };
        let now = world.list::<Pod>().iter().filter(|pod| ready(pod)).count();
        seen.fetch_min(now, Ordering::Relaxed);
        false
    };
    let mut simulation = build().with_actor(Box::new(counts));
    simulation.settle().unwrap();
    assert_eq!(status(&simulation).phase, plan::DONE);
    assert_eq!(least.load(Ordering::Relaxed), 2);
}

#[test]
fn what_cannot_be_done_is_told() {
    let check = |pods: usize, spec: Value, expected: &str| {
        let mut simulation = Simulation::new(world(pods, spec, false)).with(RollingUpdateController);
        simulation.settle().unwrap();
        let status = status(&simulation);
        assert_eq!(status.phase, "Failed");
        assert!(status.message.as_deref().unwrap().contains(expected), "{status:?}");
        assert_eq!(images(&simulation).len(), pods, "nothing is touched");
    };
    check(2, json!({"minimumAlive": 2}), "none may be replaced");
    check(0, json!({"minimumAlive": 0}), "has no pods to replace");
    check(3, json!({"images": {"other": "web:2"}}), "have no container other");
    check(3, json!({"serviceRef": "nobody"}), "there is no Service nobody");
    check(3, json!({"port": 81}), "Service web has no TCP port 81");
}

#[test]
fn aborted_update_goes_back() {
    let aborts = || {
        once(
            |world| made(world, "web:2") == 2,
            |world| {
                world.change::<RollingUpdate>(&Key::new("ns", "roll"), |one| {
                    one.spec.abort = true;
                    one.metadata.generation = Some(2);
                });
            },
        )
    };
    let mut simulation = build().with_actor(aborts());
    simulation.settle().unwrap();
    assert_eq!(images(&simulation), ["web:1", "web:1", "web:1"]);
    let status = status(&simulation);
    assert_eq!((status.phase.as_str(), status.updated), ("Aborted", 0));
    assert!(status.message.unwrap().contains("aborted"));
}

/// A node whose proxies follow, and a way to say what they have counted.
fn node(totals: fn(&World) -> RequestTotals) -> minik8s_runtime::testing::Actor {
    Box::new(move |world| {
        let key = Key::new("ns", "roll.n1");
        let Some(update) = world.get::<RollingUpdate>(&Key::new("ns", "roll")) else { return false };
        let batch = update.status.and_then(|status| status.batch);
        let draining = batch.as_ref().map(|batch| batch.pods.clone()).unwrap_or_default();
        let asked = batch.is_some_and(|batch| batch.step == plan::IN_FLIGHT);
        let names = world.list::<Pod>().into_iter().map(|pod| pod.metadata.name.unwrap());
        let spec = MeshProgressSpec {
            uid: "r".to_owned(),
            routed: names.filter(|name| !draining.contains(name)).collect(),
            idle: if asked { draining } else { Vec::new() },
            before: RequestTotals { total: 1000, failed: 0 },
            since: totals(world),
            ..MeshProgressSpec::default()
        };
        match world.get::<MeshProgress>(&key) {
            Some(known) if known.spec == spec => return false,
            Some(_) => world.change::<MeshProgress>(&key, |one| one.spec = spec),
            None => {
                let metadata = json!({"name": "roll.n1", "namespace": "ns", "uid": "p"});
                let metadata = serde_json::from_value(metadata).unwrap();
                world.insert(&MeshProgress { metadata, spec, ..MeshProgress::default() });
            }
        }
        true
    })
}

/// The proxy of each pod runs.
fn proxies_run() -> minik8s_runtime::testing::Actor {
    Box::new(|world| {
        for pod in world.list::<Pod>() {
            let status = pod.status.as_ref();
            if status.is_some_and(|status| status.init_container_statuses.is_some()) {
                continue;
            }
            let running = json!([{"name": SIDECAR, "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "started": true, "state": {"running": {}}}]);
            world.change::<Pod>(&Key::new("ns", pod.metadata.name.clone().unwrap()), |pod| {
                let status = pod.status.get_or_insert_default();
                status.init_container_statuses = Some(serde_json::from_value(running.clone()).unwrap());
                let spec = pod.spec.as_mut().unwrap();
                spec.node_name = Some("n1".to_owned());
                spec.init_containers = Some(vec![serde_json::from_value(proxy_container()).unwrap()]);
            });
            return true;
        }
        false
    })
}

fn meshed(spec: Value, totals: fn(&World) -> RequestTotals) -> Simulation {
    Simulation::new(world(3, spec, true))
        .with(RollingUpdateController)
        .with_actor(proxies_run())
        .with_actor(node(totals))
        .with_actor(Kubelet::default().actor())
}

/// No pod goes before its node has said that no proxy sends requests, and that none is under way.
#[test]
fn pods_go_when_nothing_is_in_flight() {
    let early = Arc::new(AtomicUsize::new(0));
    let seen = early.clone();
    let watches = Box::new(move |world: &mut World| {
        let progress = world.get::<MeshProgress>(&Key::new("ns", "roll.n1"));
        let idle = progress.map(|one| one.spec.idle).unwrap_or_default();
        let batch = world.get::<RollingUpdate>(&Key::new("ns", "roll")).and_then(|one| one.status?.batch);
        let is_in_flight = batch.as_ref().is_some_and(|batch| batch.step == plan::IN_FLIGHT);
        for pod in world.list::<Pod>() {
            let ends = pod.metadata.deletion_timestamp.is_some();
            let is_idle = idle.contains(pod.metadata.name.as_ref().unwrap());
            seen.fetch_add(usize::from(ends && is_in_flight && !is_idle), Ordering::Relaxed);
        }
        false
    });
    let mut simulation = meshed(json!({}), |_| RequestTotals::default()).with_actor(watches);
    simulation.settle().unwrap();
    assert_eq!(status(&simulation).phase, plan::DONE);
    assert_eq!(early.load(Ordering::Relaxed), 0);
    assert_eq!(images(&simulation), ["web:2", "web:2", "web:2"]);
}

#[test]
fn errors_that_rise_send_it_back() {
    let fails = |world: &World| match made(world, "web:2") {
        0 => RequestTotals { total: 10, failed: 0 },
        _ => RequestTotals { total: 100, failed: 30 },
    };
    let mut simulation = meshed(json!({}), fails);
    simulation.settle().unwrap();
    let status = status(&simulation);
    assert_eq!(status.phase, "Aborted", "{status:?}");
    assert!(status.message.as_deref().unwrap().contains("30 of 100 requests"), "{status:?}");
    assert_eq!(images(&simulation), ["web:1", "web:1", "web:1"]);
    let mut tolerant = meshed(json!({"maxErrors": 50}), fails);
    tolerant.settle().unwrap();
    assert_eq!(images(&tolerant), ["web:2", "web:2", "web:2"]);
}

#[test]
fn younger_update_waits_for_the_older() {
    let mut world = world(3, json!({}), false);
    let second = json!({"metadata": {"name": "again", "namespace": "ns", "uid": "s", "generation": 1,
        "creationTimestamp": "2031-01-01T00:00:00Z"},
        "spec": {"serviceRef": "web", "minimumAlive": 2, "images": {"main": "web:3"}}});
    world.insert::<RollingUpdate>(&serde_json::from_value(second).unwrap());
    let mut simulation =
        Simulation::new(world).with(RollingUpdateController).with_actor(Kubelet::default().actor());
    simulation.settle().unwrap();
    assert_eq!(status(&simulation).phase, plan::DONE);
    assert_eq!(images(&simulation), ["web:3", "web:3", "web:3"], "in turn");
}
