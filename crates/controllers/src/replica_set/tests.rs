use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence, set_pod_phase};
use minik8s_runtime::{Action, Key, is_controlled_by, key_of};
use serde_json::{Value, json};

use super::*;

fn replica_set(replicas: i32, status: Value) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "rs"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}},
        },
        "status": status,
    }))
    .unwrap()
}

fn pod(name: &str, owned: bool, labels: Value, phase: &str) -> Pod {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true}]);
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "ns", "labels": labels, "uid": name, "resourceVersion": "1",
            "ownerReferences": if owned { owner } else { json!([]) },
            "creationTimestamp": "2030-01-01T00:00:00Z",
        },
        "spec": {"containers": []},
        "status": {"phase": phase},
    }))
    .unwrap()
}

/// The actions on pods, as words.
fn planned(set: &ReplicaSet, owned: Vec<Pod>, orphans: Vec<Pod>) -> Vec<String> {
    let wrap = |pods: Vec<Pod>| pods.into_iter().map(Arc::new).collect();
    let pods = Candidates { owned: wrap(owned), orphans: wrap(orphans) };
    let seen = Observed { owner: Arc::new(set.clone()), pods };
    let plan = Replicas::<ReplicaSet>::default().plan(&seen, "2030-01-01T00:00:10Z".parse().unwrap());
    let words = plan.actions.iter().filter_map(|action| match action {
        Action::Create { .. } => Some("create".to_owned()),
        Action::Delete { target, .. } => Some(format!("delete {}", target.key.name)),
        Action::Patch { target, patch, .. } => {
            let owners = patch["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
            Some(format!("{} {}", if owners == 0 { "release" } else { "adopt" }, target.key.name))
        }
        _ => None,
    });
    words.collect()
}

#[test]
fn plans() {
    let web = || json!({"app": "web"});
    let check = |replicas: i32, owned: Vec<Pod>, orphans: Vec<Pod>, expected: &[&str]| {
        assert_eq!(planned(&replica_set(replicas, json!(null)), owned, orphans), expected);
    };
    check(0, vec![], vec![], &[]);
    check(2, vec![], vec![], &["create", "create"]);
    check(1, vec![pod("a", true, web(), "Running")], vec![], &[]);
    check(1, vec![pod("a", true, web(), "Failed")], vec![], &["create"]);
    check(1, vec![pod("a", true, web(), "Running"), pod("b", true, web(), "Pending")], vec![], &["delete b"]);
    check(1, vec![], vec![pod("a", false, web(), "Running")], &["adopt a"]);
    check(1, vec![], vec![pod("a", false, json!({"app": "x"}), "Running")], &["create"]);
    check(1, vec![pod("a", true, json!({"app": "x"}), "Running")], vec![], &["release a", "create"]);
    check(-1, vec![pod("a", true, web(), "Running")], vec![], &["delete a"]);
}

#[test]
fn a_large_set_is_filled_in_bursts() {
    assert_eq!(planned(&replica_set(2000, json!(null)), vec![], vec![]).len(), 500);
}

#[test]
fn one_that_is_deleted_makes_and_adopts_nothing() {
    let mut set = replica_set(3, json!(null));
    set.metadata.deletion_timestamp = serde_json::from_value(json!("2030-01-01T00:00:00Z")).unwrap();
    assert_eq!(planned(&set, vec![], vec![pod("a", false, json!({"app": "web"}), "Running")]), [""; 0]);
}

#[test]
fn pods_that_keep_failing_are_replaced_slowly() {
    let failed =
        |n: usize| (0..n).map(|i| pod(&format!("f{i}"), true, json!({"app": "web"}), "Failed")).collect();
    let set = replica_set(1, json!(null));
    assert_eq!(planned(&set, failed(2), vec![]), ["create"]);
    assert_eq!(planned(&set, failed(3), vec![]), ["create"], "ten seconds have passed");
    assert_eq!(planned(&set, failed(6), vec![]), [""; 0]);
}

#[test]
fn failures_show_in_the_status_until_all_is_well() {
    let controller = Replicas::<ReplicaSet>::default();
    let now = "2030-01-01T00:00:10Z".parse().unwrap();
    let none = || Candidates { owned: vec![], orphans: vec![] };
    let seen = Observed { owner: Arc::new(replica_set(1, json!(null))), pods: none() };
    let plan = controller.plan_failure(&seen, "exceeded quota", now);
    let [Action::Update { object, subresource: Some("status"), .. }] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    let condition = &object["status"]["conditions"][0];
    assert_eq!(condition["type"], "ReplicaFailure");
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("FailedCreate"), &json!("exceeded quota"))
    );
    let failed: ReplicaSet = serde_json::from_value(object.clone()).unwrap();
    let again = Observed { owner: Arc::new(failed.clone()), pods: none() };
    assert!(controller.plan_failure(&again, "exceeded quota", now).is_empty(), "said once");
    assert!(controller.plan_failure(&again, "another pod, the same reason", now).is_empty(), "no hot loop");
    let owned = vec![Arc::new(pod("a", true, json!({"app": "web"}), "Running"))];
    let well = Observed { owner: Arc::new(failed), pods: Candidates { owned, orphans: vec![] } };
    let plan = controller.plan(&well, now);
    let Some(Action::Update { object, .. }) = plan.actions.first() else { panic!("{plan:?}") };
    assert!(object["status"]["conditions"].is_null());
}

#[test]
fn converges() {
    let build = || {
        let mut world = World::default();
        world.insert(&replica_set(5, json!(null)));
        world.insert(&pod("adoptee", false, json!({"app": "web"}), "Pending"));
        world.insert(&pod("stranger", true, json!({"app": "other"}), "Running"));
        Simulation::new(world).with(Replicas::<ReplicaSet>::default()).with_actor(Kubelet::default().actor())
    };
    check_convergence(build, |simulation| {
        let set: ReplicaSet = simulation.world.get(&Key::new("ns", "web")).unwrap();
        let pods: Vec<Pod> = simulation.world.list();
        let owned = pods.iter().filter(|p| is_controlled_by(&p.metadata, "rs")).count();
        assert_eq!((pods.len(), owned), (6, 5));
        let status = set.status.unwrap();
        assert_eq!(
            (status.replicas, status.ready_replicas, status.available_replicas),
            (5, Some(5), Some(5))
        );
    });
}

#[test]
fn converges_down_with_min_ready_seconds() {
    let build = || {
        let mut world = World::default();
        let mut set = replica_set(2, json!(null));
        set.spec.min_ready_seconds = Some(30);
        world.insert(&set);
        for i in 0..4 {
            let name = format!("p{i}");
            world.insert(&pod(&name, true, json!({"app": "web"}), "Pending"));
            set_pod_phase(&mut world, &Key::new("ns", &*name), "Running");
        }
        Simulation::new(world).with(Replicas::<ReplicaSet>::default()).with_actor(Kubelet::default().actor())
    };
    check_convergence(build, |simulation| {
        let set: ReplicaSet = simulation.world.get(&Key::new("ns", "web")).unwrap();
        assert_eq!(simulation.world.list::<Pod>().len(), 2);
        assert_eq!(set.status.unwrap().available_replicas, Some(2));
    });
}

#[test]
fn replication_controllers_are_the_same_loop() {
    let build = || {
        let mut world = World::default();
        let controller: ReplicationController = serde_json::from_value(json!({
            "metadata": {"name": "rc", "namespace": "ns"},
            "spec": {
                "replicas": 3,
                "selector": {"app": "web"},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            },
        }))
        .unwrap();
        world.insert(&controller);
        Simulation::new(world)
            .with(Replicas::<ReplicationController>::default())
            .with_actor(Kubelet::default().actor())
    };
    check_convergence(build, |simulation| {
        let pods: Vec<Pod> = simulation.world.list();
        assert_eq!(pods.len(), 3);
        assert!(key_of(&pods[0]).name.starts_with("rc-"));
        let controller: ReplicationController = simulation.world.get(&Key::new("ns", "rc")).unwrap();
        assert_eq!(controller.status.unwrap().ready_replicas, Some(3));
    });
}
