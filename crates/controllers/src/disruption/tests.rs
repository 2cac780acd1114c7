use k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus;
use k8s_openapi::jiff::SignedDuration;
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;
use crate::deployment::Deployments;
use crate::replica_set::Replicas;

fn cluster(spec: Value) -> World {
    let mut world = World::default();
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"replicas": 4, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}},
    });
    world.insert(&serde_json::from_value::<Deployment>(deployment).unwrap());
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": labels});
    let budget = json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec});
    world.insert(&serde_json::from_value::<PodDisruptionBudget>(budget).unwrap());
    world
}

fn simulate(world: World) -> Simulation {
    Simulation::new(world)
        .with(Deployments)
        .with(Replicas::<ReplicaSet>::default())
        .with(DisruptionBudgets)
        .with_actor(Kubelet::default().actor())
}

fn key() -> Key {
    Key::new("ns", "web")
}

fn status(world: &World) -> PodDisruptionBudgetStatus {
    world.get::<PodDisruptionBudget>(&key()).unwrap().status.unwrap()
}

#[test]
fn what_is_allowed() {
    let check = |spec: Value, expected: (i32, i32, i32)| {
        check_convergence(
            || simulate(cluster(spec.clone())),
            |simulation| {
                let status = status(&simulation.world);
                let seen = (status.expected_pods, status.desired_healthy, status.disruptions_allowed);
                let expected_status = (Some(expected.0), Some(expected.1), Some(expected.2));
                assert_eq!((status.current_healthy, seen), (Some(4), expected_status), "{spec}");
                let condition = &status.conditions.unwrap()[0];
                let allowed = if expected.2 > 0 { "True" } else { "False" };
                assert_eq!(
                    (condition.type_.as_str(), condition.status.as_str()),
                    ("DisruptionAllowed", allowed)
                );
            },
        );
    };
    check(json!({"minAvailable": 3}), (4, 3, 1));
    check(json!({"minAvailable": "80%"}), (4, 4, 0));
    check(json!({"maxUnavailable": 1}), (4, 3, 1));
    check(json!({"maxUnavailable": "50%"}), (4, 2, 2));
}

#[test]
fn pods_without_a_controller_allow_nothing() {
    let mut world = cluster(json!({"maxUnavailable": 1}));
    let pod = json!({"metadata": {"name": "alone", "namespace": "ns", "labels": {"app": "web"}, "ownerReferences":
        [{"apiVersion": "x/v1", "kind": "Thing", "name": "t", "uid": "t", "controller": true}]}, "spec": {"containers": []}});
    world.insert(&serde_json::from_value::<Pod>(pod).unwrap());
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    let status = status(&simulation.world);
    assert_eq!(status.disruptions_allowed, Some(0));
    assert_eq!(status.conditions.unwrap()[0].reason, "SyncFailed");
}

#[test]
fn a_pod_that_was_let_go_counts_as_gone_for_two_minutes() {
    let mut simulation = simulate(cluster(json!({"minAvailable": 3})));
    simulation.settle().unwrap();
    let name = simulation.world.list::<Pod>()[0].metadata.name.clone().unwrap();
    let now = simulation.world.now();
    simulation.world.change::<PodDisruptionBudget>(&key(), |budget| {
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
        budget.status.as_mut().unwrap().disrupted_pods = Some([(name, time)].into());
    });
    simulation.stop_at(SignedDuration::from_secs(60));
    simulation.settle().unwrap();
    assert_eq!(status(&simulation.world).disruptions_allowed, Some(0));
    simulation.stop_at(SignedDuration::from_hours(24));
    simulation.settle().unwrap();
    assert_eq!(status(&simulation.world).disruptions_allowed, Some(1));
    assert_eq!(status(&simulation.world).disrupted_pods, None);
}
