use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;
use crate::pods;

fn daemon_set(change: Value) -> DaemonSet {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}},
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "agent", "namespace": "ns"}, "spec": spec})).unwrap()
}

fn node(name: &str, labels: Value, taints: Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}))
        .unwrap()
}

/// A kubelet that puts pods on the nodes they are pinned to.
fn binding() -> minik8s_runtime::testing::Actor {
    Box::new(|world| {
        let waiting = world.list::<Pod>().into_iter().find(|pod| pods::node_name(pod).is_none());
        if let Some(pod) = &waiting {
            let node = placement::target_node(pod).unwrap().to_owned();
            world.change::<Pod>(&key_of(pod), |pod| pod.spec.as_mut().unwrap().node_name = Some(node));
        }
        waiting.is_some()
    })
}

fn simulate(world: World) -> Simulation {
    Simulation::new(world).with(DaemonSets).with_actor(binding()).with_actor(Kubelet::default().actor())
}

fn cluster(set: &DaemonSet) -> World {
    let mut world = World::default();
    world.insert(set);
    for name in ["n1", "n2", "n3"] {
        world.insert(&node(name, json!({"disk": "ssd"}), json!([])));
    }
    world
}

fn placed(world: &World) -> Vec<String> {
    let mut nodes: Vec<_> =
        world.list::<Pod>().iter().filter_map(|pod| pods::node_name(pod).map(str::to_owned)).collect();
    nodes.sort();
    nodes
}

#[test]
fn one_pod_per_fitting_node() {
    let build = || {
        let spec = json!({"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c"}]});
        let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": spec});
        let mut world = cluster(&daemon_set(json!({ "template": template })));
        world.insert(&node("slow", json!({}), json!([])));
        let tainted = json!([{"key": "a", "effect": "NoSchedule"}]);
        world.insert(&node("tainted", json!({"disk": "ssd"}), tainted));
        let cordoned = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
        world.insert(&node("cordoned", json!({"disk": "ssd"}), cordoned));
        simulate(world)
    };
    check_convergence(build, |simulation| {
        assert_eq!(placed(&simulation.world), ["cordoned", "n1", "n2", "n3"]);
        let set: DaemonSet = simulation.world.get(&Key::new("ns", "agent")).unwrap();
        let status = set.status.unwrap();
        assert_eq!((status.desired_number_scheduled, status.number_ready), (4, 4));
        assert_eq!((status.updated_number_scheduled, status.number_unavailable), (Some(4), None));
        assert_eq!(simulation.world.list::<ControllerRevision>().len(), 1);
    });
}

#[test]
fn nodes_that_come_and_change_are_followed() {
    let mut simulation = simulate(cluster(&daemon_set(json!({}))));
    simulation.settle().unwrap();
    simulation.world.insert(&node("n4", json!({}), json!([])));
    simulation.settle().unwrap();
    assert_eq!(placed(&simulation.world), ["n1", "n2", "n3", "n4"]);
    let evicting = serde_json::from_value(json!([{"key": "x", "effect": "NoExecute"}])).unwrap();
    simulation
        .world
        .change::<Node>(&Key::new("", "n2"), |node| node.spec.as_mut().unwrap().taints = Some(evicting));
    simulation.settle().unwrap();
    assert_eq!(placed(&simulation.world), ["n1", "n3", "n4"]);
    simulation.world.delete::<Node>(&Key::new("", "n3"));
    simulation.settle().unwrap();
    assert_eq!(placed(&simulation.world), ["n1", "n4"]);
}

fn updated(strategy: Value, least_ready: usize) {
    let mut simulation = simulate(cluster(&daemon_set(json!({ "updateStrategy": strategy }))));
    simulation.settle().unwrap();
    let start = simulation.world;
    let build = || {
        let mut world = start.copy();
        world.change::<DaemonSet>(&Key::new("ns", "agent"), |set| {
            set.spec.template.spec.as_mut().unwrap().containers[0].image = Some("v2".to_owned());
        });
        simulate(world).with_actor(Box::new(move |world| {
            let ready =
                world.list::<Pod>().iter().filter(|p| pods::is_ready(p) && pods::is_active(p)).count();
            assert!(ready >= least_ready, "only {ready} ready");
            false
        }))
    };
    check_convergence(build, |simulation| {
        assert_eq!(placed(&simulation.world), ["n1", "n2", "n3"]);
        for pod in simulation.world.list::<Pod>() {
            assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some("v2"));
        }
        assert_eq!(simulation.world.list::<ControllerRevision>().len(), 2);
    });
}

#[test]
fn rolls_one_node_at_a_time() {
    updated(json!({"type": "RollingUpdate"}), 2);
}

#[test]
fn surge_keeps_every_node_served() {
    updated(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}), 3);
}

#[test]
fn on_delete_waits_for_the_user() {
    let mut simulation = simulate(cluster(&daemon_set(json!({"updateStrategy": {"type": "OnDelete"}}))));
    simulation.settle().unwrap();
    simulation.world.change::<DaemonSet>(&Key::new("ns", "agent"), |set| {
        set.spec.template.spec.as_mut().unwrap().containers[0].image = Some("v2".to_owned());
    });
    simulation.settle().unwrap();
    let old = simulation.world.list::<Pod>();
    assert!(old.iter().all(|p| p.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("v1")));
    simulation.world.delete::<Pod>(&key_of(&old[0]));
    simulation.settle().unwrap();
    let set: DaemonSet = simulation.world.get(&Key::new("ns", "agent")).unwrap();
    assert_eq!(set.status.unwrap().updated_number_scheduled, Some(1));
}

#[test]
fn going_back_makes_the_old_revision_the_newest() {
    let mut simulation = simulate(cluster(&daemon_set(json!({}))));
    for image in ["v1", "v2", "v1"] {
        simulation.world.change::<DaemonSet>(&Key::new("ns", "agent"), |set| {
            set.spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.to_owned());
        });
        simulation.settle().unwrap();
    }
    let mut numbers: Vec<_> =
        simulation.world.list::<ControllerRevision>().iter().map(|r| r.revision).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(2), Some(3)]);
}

#[test]
fn failed_daemons_are_replaced_but_not_in_a_storm() {
    let world = cluster(&daemon_set(json!({})));
    let failing = Kubelet { ends_in: Some("Failed") };
    let mut simulation =
        Simulation::new(world).with(DaemonSets).with_actor(binding()).with_actor(failing.actor());
    simulation.stop_at(k8s_openapi::jiff::SignedDuration::from_secs(60));
    simulation.settle().unwrap();
    let created = simulation.world.log.iter().filter(|line| line.starts_with("create pods")).count();
    assert!((6..=24).contains(&created), "{created} pods in a minute on three nodes");
}
