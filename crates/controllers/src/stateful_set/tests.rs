use minik8s_runtime::testing::{Actor, Kubelet, Simulation, World, check_convergence};
use minik8s_runtime::{Action, key_of};
use serde_json::{Value, json};

use super::*;
use crate::pods;

fn stateful_set(change: Value) -> StatefulSet {
    let mut spec = json!({
        "replicas": 3,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "db", "namespace": "ns", "uid": "set"}, "spec": spec}))
        .unwrap()
}

fn key() -> Key {
    Key::new("ns", "db")
}

fn simulate(world: World) -> Simulation {
    Simulation::new(world).with(StatefulSets).with_actor(Kubelet::default().actor())
}

fn rolled_out(change: Value) -> World {
    let mut world = World::default();
    world.insert(&stateful_set(change));
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    simulation.world
}

/// Never more than one pod that is not ready, and no gaps below a ready pod.
fn in_order() -> Actor {
    Box::new(|world| {
        let pods = world.list::<Pod>();
        let unready = pods.iter().filter(|pod| !pods::is_ready(pod)).count();
        assert!(unready <= 1, "not one after the other");
        false
    })
}

fn names(world: &World) -> Vec<String> {
    world.list::<Pod>().into_iter().map(|pod| pod.metadata.name.unwrap()).collect()
}

fn images(world: &World) -> Vec<String> {
    world
        .list::<Pod>()
        .into_iter()
        .map(|pod| pod.spec.unwrap().containers[0].image.clone().unwrap())
        .collect()
}

fn set_image(world: &mut World, image: &str) {
    world.change::<StatefulSet>(&key(), |set| {
        set.spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.to_owned());
    });
}

#[test]
fn comes_up_in_order_with_identity() {
    let build = || {
        let mut world = World::default();
        world.insert(&stateful_set(json!({})));
        simulate(world).with_actor(in_order())
    };
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        assert_eq!(names(world), ["db-0", "db-1", "db-2"]);
        let pod: Pod = world.get(&Key::new("ns", "db-1")).unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-1"), Some("db")));
        let claim = spec.volumes.unwrap()[0].persistent_volume_claim.clone().unwrap();
        assert_eq!(claim.claim_name, "data-db-1");
        let labels = pod.metadata.labels.unwrap();
        assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-1");
        assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
        assert_eq!(world.list::<PersistentVolumeClaim>().len(), 3);
        let set: StatefulSet = world.get(&key()).unwrap();
        let status = set.status.unwrap();
        assert_eq!((status.replicas, status.ready_replicas, status.current_replicas), (3, Some(3), Some(3)));
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!(labels["controller-revision-hash"], status.update_revision.unwrap());
    });
}

#[test]
fn scales_down_from_the_top_and_keeps_the_claims() {
    let start = rolled_out(json!({"replicas": 4}));
    let build = || {
        let mut world = start.copy();
        world.change::<StatefulSet>(&key(), |set| set.spec.replicas = Some(1));
        simulate(world)
    };
    check_convergence(build, |simulation| {
        assert_eq!(names(&simulation.world), ["db-0"]);
        assert_eq!(simulation.world.list::<PersistentVolumeClaim>().len(), 4);
    });
}

#[test]
fn claims_go_if_the_policy_says_so() {
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    let mut world = rolled_out(json!({"persistentVolumeClaimRetentionPolicy": policy}));
    let claims: Vec<PersistentVolumeClaim> = world.list();
    assert!(claims.iter().all(|c| c.metadata.owner_references.as_ref().unwrap()[0].kind == "StatefulSet"));
    world.change::<StatefulSet>(&key(), |set| set.spec.replicas = Some(2));
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "data-db-2")).unwrap();
    assert_eq!(claim.metadata.owner_references.unwrap()[0].kind, "Pod", "the garbage collector takes it");
}

#[test]
fn rolls_from_the_top_one_at_a_time() {
    let start = rolled_out(json!({}));
    let build = || {
        let mut world = start.copy();
        set_image(&mut world, "v2");
        simulate(world).with_actor(Box::new(|world| {
            let ready =
                world.list::<Pod>().iter().filter(|p| pods::is_ready(p) && pods::is_active(p)).count();
            assert!(ready >= 2, "only {ready} ready");
            let images = images(world);
            let first_new = images.iter().position(|i| i == "v2").unwrap_or(images.len());
            assert!(images[first_new..].iter().all(|i| i == "v2"), "not from the top: {images:?}");
            false
        }))
    };
    check_convergence(build, |simulation| {
        assert_eq!(images(&simulation.world), ["v2"; 3]);
        let status = simulation.world.get::<StatefulSet>(&key()).unwrap().status.unwrap();
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!((status.updated_replicas, status.current_replicas), (Some(3), Some(3)));
    });
}

#[test]
fn a_partition_holds_the_lower_ordinals_back() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    let start = rolled_out(json!({ "updateStrategy": strategy }));
    let build = || {
        let mut world = start.copy();
        set_image(&mut world, "v2");
        // One that is held back and dies comes back as it was.
        world.delete::<Pod>(&Key::new("ns", "db-0"));
        simulate(world)
    };
    check_convergence(build, |simulation| {
        assert_eq!(images(&simulation.world), ["v1", "v1", "v2"]);
        let status = simulation.world.get::<StatefulSet>(&key()).unwrap().status.unwrap();
        assert_eq!((status.current_replicas, status.updated_replicas), (Some(2), Some(1)));
    });
}

#[test]
fn on_delete_waits_for_the_user() {
    let mut world = rolled_out(json!({"updateStrategy": {"type": "OnDelete"}}));
    set_image(&mut world, "v2");
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    assert_eq!(images(&simulation.world), ["v1"; 3]);
    simulation.world.delete::<Pod>(&Key::new("ns", "db-1"));
    simulation.settle().unwrap();
    assert_eq!(images(&simulation.world), ["v1", "v2", "v1"]);
}

#[test]
fn parallel_does_not_wait() {
    let mut world = World::default();
    world.insert(&stateful_set(json!({"podManagementPolicy": "Parallel"})));
    // Without a kubelet nobody ever becomes ready.
    let mut simulation = Simulation::new(world).with(StatefulSets);
    simulation.settle().unwrap();
    assert_eq!(names(&simulation.world).len(), 3);
    let mut world = World::default();
    world.insert(&stateful_set(json!({})));
    let mut simulation = Simulation::new(world).with(StatefulSets);
    simulation.settle().unwrap();
    assert_eq!(names(&simulation.world), ["db-0"], "in order, the first one blocks");
}

/// Whoever may make a set may ask for more pods than there is memory to plan.
#[test]
fn one_round_makes_a_bounded_number_of_pods() {
    let mut world = rolled_out(json!({"podManagementPolicy": "Parallel"}));
    world.change::<StatefulSet>(&key(), |set| set.spec.replicas = Some(i32::MAX));
    let seen = StatefulSets.observe(world.caches(), &key()).unwrap();
    let plan = StatefulSets.plan(&seen, world.now());
    let made = plan.actions.iter().filter(|action| matches!(action, Action::Create { .. }));
    assert_eq!(made.count(), 2 * 500, "as many pods, each with its claim");
    let mut world = World::default();
    world.insert(&stateful_set(json!({"podManagementPolicy": "Parallel", "replicas": 501})));
    let mut simulation = Simulation::new(world).with(StatefulSets);
    simulation.settle().unwrap();
    assert_eq!(names(&simulation.world).len(), 501, "the others are made in the next");
}

#[test]
fn pods_beyond_the_wanted_go_while_many_are_missing() {
    let mut world = rolled_out(json!({"podManagementPolicy": "Parallel"}));
    world.change::<StatefulSet>(&key(), |set| {
        set.spec.replicas = Some(i32::MAX);
        set.spec.ordinals.get_or_insert_default().start = Some(2);
    });
    let seen = StatefulSets.observe(world.caches(), &key()).unwrap();
    let plan = StatefulSets.plan(&seen, world.now());
    let deleted = plan.actions.iter().filter_map(|action| match action {
        Action::Delete { target, .. } => Some(target.key.name.as_str()),
        _ => None,
    });
    assert_eq!(deleted.collect::<Vec<_>>(), ["db-1", "db-0"]);
}

#[test]
fn ordinals_may_start_elsewhere() {
    let world = rolled_out(json!({"ordinals": {"start": 5}, "replicas": 2}));
    assert_eq!(names(&world), ["db-5", "db-6"]);
}

#[test]
fn failed_pods_come_back_under_their_name() {
    let build = || {
        let mut world = World::default();
        world.insert(&stateful_set(json!({})));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true}]);
        let failed = json!({
            "metadata": {"name": "db-0", "namespace": "ns", "labels": {"app": "db"}, "ownerReferences": owner},
            "spec": {"containers": [], "nodeName": "n"},
            "status": {"phase": "Failed"},
        });
        world.insert(&serde_json::from_value::<Pod>(failed).unwrap());
        simulate(world)
    };
    check_convergence(build, |simulation| {
        assert_eq!(names(&simulation.world), ["db-0", "db-1", "db-2"]);
        assert!(simulation.world.list::<Pod>().iter().all(pods::is_ready));
    });
}

#[test]
fn ordinals_in_names() {
    let set = stateful_set(json!({}));
    let check = |name: &str, expected: Option<i32>| {
        let pod = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        assert_eq!(identity::ordinal(&set, &pod), expected, "{name}");
    };
    check("db-0", Some(0));
    check("db-12", Some(12));
    check("db-01", None);
    check("db-x", None);
    check("dbx-1", None);
    check("db-", None);
    assert_eq!(key_of(&set), key());
}
