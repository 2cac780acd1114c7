//! The controller in a world in memory, with a pretended node.

use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use serde_json::json;

use super::*;

fn world(pods: usize, alive: i32) -> World {
    let mut world = World::default();
    let service = json!({"metadata": {"name": "web", "namespace": "ns"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    world.insert::<Service>(&serde_json::from_value(service).unwrap());
    for number in 0..pods {
        let pod = json!({"metadata": {"name": format!("old-{number}"), "namespace": "ns", "uid": format!("u{number}"),
            "labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        world.insert::<Pod>(&serde_json::from_value(pod).unwrap());
        minik8s_runtime::testing::set_pod_phase(
            &mut world,
            &Key::new("ns", format!("old-{number}")),
            "Running",
        );
    }
    let update = json!({"metadata": {"name": "roll", "namespace": "ns", "uid": "r", "generation": 1},
        "spec": {"serviceRef": "web", "port": 80, "minimumAlive": alive, "interval": 10,
            "newPodSpec": {"containers": [{"name": "main", "image": "web:2"}]}}});
    world.insert::<RollingUpdate>(&serde_json::from_value(update).unwrap());
    world
}

fn build() -> Simulation {
    Simulation::new(world(3, 2)).with(RollingUpdateController).with_actor(Kubelet::default().actor())
}

fn images(simulation: &Simulation) -> Vec<String> {
    let image = |pod: Pod| pod.spec.unwrap().containers[0].image.clone().unwrap();
    simulation.world.list::<Pod>().into_iter().map(image).collect()
}

fn status(simulation: &Simulation) -> RollingUpdateStatus {
    simulation.world.get::<RollingUpdate>(&Key::new("ns", "roll")).unwrap().status.unwrap()
}

#[test]
fn all_pods_are_replaced() {
    check_convergence(build, |simulation| {
        assert_eq!(images(simulation), ["web:2", "web:2", "web:2"]);
        let status = status(simulation);
        assert_eq!((status.phase.as_str(), status.total, status.updated), (plan::DONE, 3, 3));
    });
}

#[test]
fn never_fewer_than_the_minimum_are_ready() {
    let least = Arc::new(std::sync::atomic::AtomicUsize::new(usize::MAX));
    let seen = least.clone();
    let counts = move |world: &mut World| {
        let ready = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let is_ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
            is_ready && pod.metadata.deletion_timestamp.is_none()
        };
        let now = world.list::<Pod>().iter().filter(|pod| ready(pod)).count();
        seen.fetch_min(now, std::sync::atomic::Ordering::Relaxed);
        false
    };
    let mut simulation = build().with_actor(Box::new(counts));
    simulation.settle().unwrap();
    assert_eq!(status(&simulation).phase, plan::DONE);
    assert_eq!(least.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn what_cannot_be_done_is_told() {
    let check = |pods: usize, alive: i32, expected: &str| {
        let mut simulation = Simulation::new(world(pods, alive)).with(RollingUpdateController);
        simulation.settle().unwrap();
        let status = status(&simulation);
        assert_eq!(status.phase, "Failed");
        assert!(status.message.as_deref().unwrap().contains(expected), "{status:?}");
        assert_eq!(images(&simulation).len(), pods, "nothing is touched");
    };
    check(2, 2, "none may be replaced");
    check(0, 0, "has no pods to replace");
}
