use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minik8s_meta::invocation::{Invocation, InvocationStatus};
use minik8s_runtime::Key;
use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::json;

use super::*;

fn world(nodes: &[&str], invocation: serde_json::Value) -> World {
    let mut world = World::default();
    for name in nodes {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        world.insert(&node);
    }
    let spec: Invocation =
        serde_json::from_value(json!({"metadata": {"name": "i", "namespace": "ns"}, "spec": invocation}))
            .unwrap();
    world.insert(&spec);
    world
}

fn key() -> Key {
    Key::new("ns", "i")
}

#[test]
fn invocation_gets_a_node_that_is_ready() {
    check_convergence(
        || {
            Simulation::new(world(&["a", "b"], json!({"function": "f", "node": "gone"})))
                .with(InvocationController)
        },
        |simulation| {
            let invocation: Invocation = simulation.world.get(&key()).unwrap();
            assert!(matches!(invocation.spec.node.as_deref(), Some("a" | "b")));
        },
    );
}

#[test]
fn invocation_that_failed_is_told_once_and_forgotten() {
    let build = || {
        let mut world =
            world(&["a"], json!({"function": "f", "node": "a", "onFailure": "alarm", "ttlSeconds": 5}));
        let now = world.now();
        world.change::<Invocation>(&key(), |invocation| {
            invocation.status = Some(InvocationStatus {
                phase: "Failed".to_owned(),
                completion_time: Some(Time(now)),
                ..InvocationStatus::default()
            });
        });
        Simulation::new(world).with(InvocationController)
    };
    check_convergence(build, |simulation| {
        let left: Vec<Invocation> = simulation.world.list();
        let functions: Vec<_> = left.iter().map(|one| one.spec.function.as_str()).collect();
        assert_eq!(functions, ["alarm"]);
    });
}

/// A run of a workflow is asked for once, whatever becomes of it, and the call is forgotten all the same.
#[test]
fn workflow_is_started_once_for_the_end_of_a_call() {
    let build = || {
        let spec = json!({"function": "f", "node": "a", "onSuccess": {"workflow": "next"}, "ttlSeconds": 5});
        let mut world = world(&["a"], spec);
        let now = world.now();
        world.change::<Invocation>(&key(), |invocation| {
            invocation.status = Some(InvocationStatus {
                phase: "Succeeded".to_owned(),
                completion_time: Some(Time(now)),
                ..InvocationStatus::default()
            });
        });
        Simulation::new(world).with(InvocationController)
    };
    check_convergence(build, |simulation| assert!(simulation.world.list::<Invocation>().is_empty()));
    let mut simulation = build();
    simulation.settle().unwrap();
    let posts = simulation.world.log.iter().filter(|line| line.starts_with("post destination of")).count();
    assert_eq!(posts, 1, "{:?}", simulation.world.log);
}

/// The function says whom to tell; what is told is not told of again.
#[test]
fn function_tells_its_destinations_of_the_end_of_calls() {
    let mut world = world(&["a"], json!({"function": "f", "node": "a", "ttlSeconds": 5}));
    let function = |name: &str| -> Function {
        let metadata = json!({"name": name, "namespace": "ns"});
        let spec = json!({"image": "a:1", "async": {"onSuccess": "next", "onFailure": "alarm"}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    };
    world.insert(&function("f"));
    world.insert(&function("next"));
    let end = |world: &mut World, key: &Key| {
        let now = world.now();
        world.change::<Invocation>(key, |invocation| {
            invocation.status = Some(InvocationStatus {
                phase: "Succeeded".to_owned(),
                completion_time: Some(Time(now)),
                result: Some("5".to_owned()),
                ..InvocationStatus::default()
            });
        });
    };
    end(&mut world, &key());
    let mut simulation = Simulation::new(world).with(InvocationController);
    simulation.settle().unwrap();
    let told = Key::new("ns", "i-succeeded");
    let next: Invocation = simulation.world.get(&told).unwrap();
    assert_eq!(next.spec.function, "next");
    let payload: Value = serde_json::from_str(next.spec.payload.as_deref().unwrap()).unwrap();
    assert_eq!((&payload["result"], &payload["phase"]), (&json!("5"), &json!("Succeeded")));
    let mut world = simulation.world;
    end(&mut world, &told);
    let mut simulation = Simulation::new(world).with(InvocationController);
    simulation.settle().unwrap();
    assert_eq!(simulation.world.list::<Invocation>().len(), 0, "told once, and forgotten");
}
