use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use minik8s_runtime::{Action, Object, Propagation, Target, key_of};
use serde_json::{Value, json};

use super::*;

fn catalog() -> Arc<Catalog> {
    let catalog = Catalog::default();
    catalog.update(vec![
        Kind::of::<Deployment>(),
        Kind::of::<ReplicaSet>(),
        Kind::of::<Pod>(),
        Kind::of::<ConfigMap>(),
    ]);
    Arc::new(catalog)
}

fn simulate(world: World) -> Simulation {
    Simulation::new(world).with(GarbageCollector::new(catalog())).with_actor(Kubelet::default().actor())
}

fn object<K: Object>(name: &str, owners: &[(&str, &str)]) -> K {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(kind, name)| {
            let group = if *kind == "ConfigMap" { "v1" } else { "apps/v1" };
            json!({"apiVersion": group, "kind": kind, "name": name, "uid": name, "controller": true,
                "blockOwnerDeletion": true})
        })
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "ownerReferences": owners},
        "spec": {"selector": {}, "template": {}, "containers": []},
    }))
    .unwrap()
}

/// A Deployment with a ReplicaSet with two pods.
fn family() -> World {
    let mut world = World::default();
    world.insert(&object::<Deployment>("d", &[]));
    world.insert(&object::<ReplicaSet>("rs", &[("Deployment", "d")]));
    world.insert(&object::<Pod>("p1", &[("ReplicaSet", "rs")]));
    world.insert(&object::<Pod>("p2", &[("ReplicaSet", "rs")]));
    world
}

fn delete_with(world: &mut World, policy: Propagation) {
    let deployment: Deployment = world.get(&Key::new("ns", "d")).unwrap();
    let delete = Action::delete(&deployment).with_propagation(policy);
    world.apply(&delete).unwrap();
}

fn counts(world: &World) -> (usize, usize, usize) {
    (world.list::<Deployment>().len(), world.list::<ReplicaSet>().len(), world.list::<Pod>().len())
}

#[test]
fn background_deletion_takes_the_whole_family() {
    let build = || {
        let mut world = family();
        delete_with(&mut world, Propagation::Background);
        simulate(world)
    };
    check_convergence(build, |simulation| assert_eq!(counts(&simulation.world), (0, 0, 0)));
}

#[test]
fn foreground_deletion_goes_from_the_leaves_up() {
    let build = || {
        let mut world = family();
        delete_with(&mut world, Propagation::Foreground);
        simulate(world).with_actor(Box::new(|world| {
            let (deployments, sets, pods) = counts(world);
            assert!(deployments == 1 || sets == 0, "the owner went before its dependents");
            assert!(sets == 1 || pods == 0, "the owner went before its dependents");
            false
        }))
    };
    check_convergence(build, |simulation| assert_eq!(counts(&simulation.world), (0, 0, 0)));
}

#[test]
fn orphan_deletion_leaves_the_dependents() {
    let build = || {
        let mut world = family();
        delete_with(&mut world, Propagation::Orphan);
        simulate(world)
    };
    check_convergence(build, |simulation| {
        assert_eq!(counts(&simulation.world), (0, 1, 2));
        let set: ReplicaSet = simulation.world.get(&Key::new("ns", "rs")).unwrap();
        assert_eq!(set.metadata.owner_references.unwrap_or_default(), []);
    });
}

#[test]
fn a_second_owner_keeps_an_object_alive() {
    let build = || {
        let mut world = World::default();
        world.insert(&object::<ConfigMap>("a", &[]));
        world.insert(&object::<ConfigMap>("child", &[("ConfigMap", "a"), ("ConfigMap", "gone")]));
        simulate(world)
    };
    check_convergence(build, |simulation| {
        let child: ConfigMap = simulation.world.get(&Key::new("ns", "child")).unwrap();
        let owners: Vec<_> = child.metadata.owner_references.unwrap().into_iter().map(|o| o.name).collect();
        assert_eq!(owners, ["a"]);
    });
}

#[test]
fn owners_of_unknown_kinds_keep_an_object_alive() {
    let mut world = World::default();
    world.insert(&object::<ConfigMap>("child", &[("Mystery", "x")]));
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    assert_eq!(simulation.world.list::<ConfigMap>().len(), 1);
}

#[test]
fn an_owner_that_only_the_api_knows_is_not_missing() {
    let collector = GarbageCollector::new(catalog());
    let child: ConfigMap = object("child", &[("ConfigMap", "late")]);
    collector.graph.write().change(&Kind::of::<ConfigMap>(), None, Some(&child.metadata));
    let seen = collector.observe(&Caches::detached(), &"child".to_owned()).unwrap();
    let plan = collector.plan(&seen, Timestamp::UNIX_EPOCH);
    let late: ConfigMap = object("late", &[]);
    assert_eq!(
        plan.actions[0],
        Action::RequireAbsent { target: Target { key: key_of(&late), ..Target::of(&late) } }
    );
    assert!(matches!(plan.actions[1], Action::Delete { .. }));
}

#[test]
fn cycles_are_left_alone_and_go_together() {
    let build = || {
        let mut world = World::default();
        world.insert(&object::<ConfigMap>("a", &[("ConfigMap", "b")]));
        world.insert(&object::<ConfigMap>("b", &[("ConfigMap", "a")]));
        simulate(world)
    };
    let mut untouched = build();
    untouched.settle().unwrap();
    assert_eq!(untouched.world.list::<ConfigMap>().len(), 2);
    for policy in [Propagation::Background, Propagation::Foreground] {
        let deleted = || {
            let mut simulation = build();
            let a: ConfigMap = simulation.world.get(&Key::new("ns", "a")).unwrap();
            simulation.world.apply(&Action::delete(&a).with_propagation(policy)).unwrap();
            simulation
        };
        check_convergence(deleted, |s| assert_eq!(s.world.list::<ConfigMap>().len(), 0, "{policy:?}"));
    }
}
