use minik8s_runtime::testing::{Simulation, World, check_convergence, set_pod_phase};
use serde_json::{Value, json};

use super::*;

fn node(name: &str, ready: &str, change: Value) -> Node {
    let mut value = json!({
        "metadata": {"name": name},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": "2030-01-01T00:00:00Z"}]},
    });
    for (field, new) in change.as_object().unwrap() {
        value[field] = new.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, node: &str, tolerations: Value, annotations: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
        "spec": {"containers": [], "nodeName": node, "tolerations": tolerations},
    }))
    .unwrap()
}

fn tolerating(seconds: i64) -> Value {
    let one = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    json!([one(taints::NOT_READY), one(taints::UNREACHABLE)])
}

/// The effects of our taints on a node.
fn shown(node: &Node) -> Vec<String> {
    taints::of(node).iter().map(|t| format!("{}:{}", t.key.rsplit('/').next().unwrap(), t.effect)).collect()
}

fn no_trouble() -> Trouble {
    Arc::new(|| None)
}

#[test]
fn taints_follow_conditions() {
    let check = |node: Node, expected: &[&str]| {
        let taints = taints::wanted(&node, true, Timestamp::UNIX_EPOCH);
        let node = Node {
            spec: Some(k8s_openapi::api::core::v1::NodeSpec { taints: Some(taints), ..Default::default() }),
            ..node
        };
        assert_eq!(shown(&node), expected);
    };
    check(node("n", "True", json!({})), &[]);
    check(node("n", "False", json!({})), &["not-ready:NoSchedule", "not-ready:NoExecute"]);
    check(node("n", "Unknown", json!({})), &["unreachable:NoSchedule", "unreachable:NoExecute"]);
    check(node("n", "True", json!({"spec": {"unschedulable": true}})), &["unschedulable:NoSchedule"]);
    let mine = json!([{"key": "example.com/mine", "effect": "NoExecute"}, {"key": taints::NOT_READY, "effect": "NoExecute"}]);
    check(node("n", "True", json!({"spec": {"taints": mine}})), &["mine:NoExecute"]);
    check(node("n", "True", json!({"status": {}})), &["not-ready:NoSchedule"]);
    let pressed = json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]});
    check(node("n", "True", json!({"status": pressed})), &["disk-pressure:NoSchedule"]);
}

/// Two nodes, of which "dead" is silent.
fn failing(pods: &[Pod]) -> Simulation {
    let mut world = World::default();
    world.insert(&node("alive", "True", json!({})));
    world.insert(&node("dead", "True", json!({})));
    for pod in pods {
        let key = key_of(&world.insert(pod));
        set_pod_phase(&mut world, &key, "Running");
    }
    let lifecycle = NodeLifecycle::new(world.clock(), no_trouble(), DEFAULT_GRACE);
    let heard = lifecycle.heard.clone();
    Simulation::new(world).with(lifecycle).with_actor(Box::new(move |world| {
        heard.lock().insert("alive".to_owned(), world.now());
        let gone = world.list::<Pod>().into_iter().find(|pod| pod.metadata.deletion_timestamp.is_some());
        if let Some(pod) = &gone {
            world.erase::<Pod>(&key_of(pod));
        }
        gone.is_some()
    }))
}

#[test]
fn a_silent_node_loses_its_pods_when_they_have_waited_long_enough() {
    let build = || {
        failing(&[
            pod("usual", "dead", tolerating(300), json!({})),
            pod("patient", "dead", json!([{"operator": "Exists"}]), json!({})),
            pod("other", "alive", tolerating(300), json!({})),
        ])
    };
    let mut simulation = build();
    simulation.stop_at(SignedDuration::from_secs(330));
    simulation.settle().unwrap();
    let dead: Node = simulation.world.get(&Key::new("", "dead")).unwrap();
    assert_eq!(shown(&dead), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    assert_eq!(conditions::get(&dead, "Ready").unwrap().status, "Unknown");
    let usual: Pod = simulation.world.get(&Key::new("ns", "usual")).unwrap();
    assert!(!crate::pods::is_ready(&usual), "its Services must not send anybody there");
    let mut simulation = build();
    simulation.stop_at(SignedDuration::from_secs(400));
    simulation.settle().unwrap();
    let names: Vec<_> =
        simulation.world.list::<Pod>().into_iter().map(|p| p.metadata.name.unwrap()).collect();
    assert_eq!(names, ["other", "patient"]);
}

#[test]
fn annotated_pods_fail_over_early() {
    let annotated = json!({"minik8s.io/failover-seconds": "5"});
    let mut simulation = failing(&[
        pod("hasty", "dead", tolerating(300), annotated),
        pod("usual", "dead", tolerating(300), json!({})),
    ]);
    simulation.stop_at(SignedDuration::from_secs(60));
    simulation.settle().unwrap();
    let names: Vec<_> =
        simulation.world.list::<Pod>().into_iter().map(|p| p.metadata.name.unwrap()).collect();
    assert_eq!(names, ["usual"]);
}

#[test]
fn if_nobody_is_heard_nobody_is_evicted() {
    let build = || {
        let mut world = World::default();
        world.insert(&node("dead", "True", json!({})));
        world.insert(&pod("p", "dead", tolerating(0), json!({})));
        let clock = world.clock();
        Simulation::new(world).with(NodeLifecycle::new(clock, no_trouble(), DEFAULT_GRACE))
    };
    check_convergence(build, |simulation| {
        let dead: Node = simulation.world.get(&Key::new("", "dead")).unwrap();
        assert_eq!(shown(&dead), ["unreachable:NoSchedule"]);
        assert_eq!(simulation.world.list::<Pod>().len(), 1);
    });
}

#[test]
fn a_node_that_says_it_is_not_ready_is_believed_and_comes_back() {
    let mut world = World::default();
    world.insert(&node("n", "False", json!({})));
    let clock = world.clock();
    let mut simulation = Simulation::new(world).with(NodeLifecycle::new(clock, no_trouble(), DEFAULT_GRACE));
    simulation.stop_at(SignedDuration::from_secs(1));
    simulation.settle().unwrap();
    let key = Key::new("", "n");
    assert_eq!(shown(&simulation.world.get(&key).unwrap()), ["not-ready:NoSchedule", "not-ready:NoExecute"]);
    simulation.world.change::<Node>(&key, |node| {
        node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "True".to_owned();
    });
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation.world.get(&key).unwrap()), [""; 0]);
}

#[test]
fn a_node_that_promised_less_gets_more_time() {
    let check = |lease: Option<i32>, after: i64, ready: &str| {
        let mut world = World::default();
        world.insert(&node("alive", "True", json!({})));
        world.insert(&node("dead", "True", json!({})));
        if let Some(seconds) = lease {
            let lease = json!({"metadata": {"name": "dead", "namespace": LEASES}, "spec": {"leaseDurationSeconds": seconds}});
            world.insert(&serde_json::from_value::<Lease>(lease).unwrap());
        }
        let lifecycle = NodeLifecycle::new(world.clock(), no_trouble(), SignedDuration::from_secs(3));
        let mut simulation = Simulation::new(world).with(lifecycle);
        simulation.stop_at(SignedDuration::from_secs(after));
        simulation.settle().unwrap();
        let dead: Node = simulation.world.get(&Key::new("", "dead")).unwrap();
        assert_eq!(conditions::get(&dead, "Ready").unwrap().status, ready, "{lease:?} after {after} s");
    };
    check(None, 2, "True");
    check(None, 4, "Unknown");
    check(Some(3), 4, "Unknown");
    check(Some(40), 39, "True");
    check(Some(40), 41, "Unknown");
    // Nobody is waited for for ever.
    check(Some(100_000), 41, "Unknown");
}

#[test]
fn silence_counts_from_the_stores_last_trouble() {
    let check = |trouble: Option<i64>, after: i64, ready: &str| {
        let mut world = World::default();
        world.insert(&node("silent", "True", json!({})));
        let at = trouble.map(|seconds| world.now() + SignedDuration::from_secs(seconds));
        let lifecycle = NodeLifecycle::new(world.clock(), Arc::new(move || at), SignedDuration::from_secs(3));
        let mut simulation = Simulation::new(world).with(lifecycle);
        simulation.stop_at(SignedDuration::from_secs(after));
        simulation.settle().unwrap();
        let silent: Node = simulation.world.get(&Key::new("", "silent")).unwrap();
        assert_eq!(conditions::get(&silent, "Ready").unwrap().status, ready, "{trouble:?} after {after} s");
    };
    check(None, 4, "Unknown");
    check(Some(-5), 4, "Unknown");
    check(Some(2), 4, "True");
    check(Some(2), 6, "Unknown");
}
