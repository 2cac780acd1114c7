use k8s_openapi::api::core::v1::ConfigMap;
use minik8s_runtime::testing::{Simulation, World, check_convergence, set_pod_phase};

use super::*;

fn pod(name: &str, cpu: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }))
    .unwrap()
}

fn simulate(world: World) -> Simulation {
    let catalog = Arc::new(Catalog::default());
    catalog.update(vec![Kind::of::<ConfigMap>(), Kind::of::<Pod>(), Kind::of::<ResourceQuota>()]);
    Simulation::new(world).with(Quotas::new(catalog))
}

fn cluster(spec: Value) -> World {
    let mut world = World::default();
    let quota = json!({"metadata": {"name": "q", "namespace": "ns"}, "spec": spec});
    world.insert(&serde_json::from_value::<ResourceQuota>(quota).unwrap());
    world.insert(&pod("a", "500m"));
    world.insert(&pod("b", "1"));
    for name in ["x", "y"] {
        let map = json!({"metadata": {"name": name, "namespace": "ns"}});
        world.insert(&serde_json::from_value::<ConfigMap>(map).unwrap());
    }
    world
}

fn used(world: &World) -> Value {
    json!(world.get::<ResourceQuota>(&Key::new("ns", "q")).unwrap().status.unwrap().used)
}

#[test]
fn counts_what_is_there() {
    let hard = json!({"pods": "5", "requests.cpu": "4", "configmaps": "9", "count/configmaps": "9", "count/jobs.batch": "2"});
    let build = || simulate(cluster(json!({"hard": hard})));
    check_convergence(build, |simulation| {
        let expected = json!({"configmaps": "2", "count/configmaps": "2", "count/jobs.batch": "0", "pods": "2", "requests.cpu": "1500m"});
        assert_eq!(used(&simulation.world), expected);
    });
}

#[test]
fn what_goes_or_ends_is_given_back() {
    let mut simulation =
        simulate(cluster(json!({"hard": {"pods": "5", "requests.cpu": "4", "configmaps": "9"}})));
    simulation.settle().unwrap();
    set_pod_phase(&mut simulation.world, &Key::new("ns", "b"), "Succeeded");
    simulation.world.delete::<ConfigMap>(&Key::new("ns", "x"));
    simulation.settle().unwrap();
    assert_eq!(used(&simulation.world), json!({"configmaps": "1", "pods": "1", "requests.cpu": "500m"}));
    simulation.world.delete::<Pod>(&Key::new("ns", "a"));
    simulation.settle().unwrap();
    assert_eq!(used(&simulation.world), json!({"configmaps": "1", "pods": "0", "requests.cpu": "0"}));
}

#[test]
fn scopes_narrow_it() {
    let mut simulation = simulate(cluster(json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]})));
    simulation.settle().unwrap();
    assert_eq!(used(&simulation.world), json!({"pods": "0"}));
}
