use k8s_openapi::api::core::v1::{Node, Pod};
use minik8s_runtime::Key;
use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::json;

use super::*;

fn pod(name: &str, node: &str, annotations: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "x"}], "nodeName": node},
    }))
    .unwrap()
}

#[test]
fn nodes_join_and_pods_run_and_end() {
    let build = || {
        let mut world = World::default();
        world.insert(&pod("serves", "sim-0000", json!({})));
        world.insert(&pod("works", "sim-0001", json!({RUN_SECONDS: "60"})));
        world.insert(&pod("fails", "sim-0001", json!({RUN_SECONDS: "1", EXIT_CODE: "3"})));
        world.insert(&pod("elsewhere", "real", json!({})));
        let mut simulation =
            Simulation::new(world).with(SimulatedNodes { count: 2, pods_per_node: 110 }).with(SimulatedPods);
        simulation.stop_at(k8s_openapi::jiff::SignedDuration::from_mins(5));
        simulation
    };
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        assert_eq!(world.list::<Node>().len(), 2);
        let phase = |name: &str| {
            let pod: Pod = world.get(&Key::new("ns", name)).unwrap();
            pod.status.and_then(|s| s.phase).unwrap_or_default()
        };
        assert_eq!((phase("serves").as_str(), phase("works").as_str()), ("Running", "Succeeded"));
        assert_eq!((phase("fails").as_str(), phase("elsewhere").as_str()), ("Failed", ""));
    });
}
