use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use minik8s_runtime::Key;
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;
use crate::replica_set::Replicas;

fn deployment(change: Value) -> Deployment {
    let mut value = json!({
        "metadata": {"name": "web", "namespace": "ns", "annotations": {"kubernetes.io/change-cause": "first"}},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}},
        },
    });
    merge(&mut value, change);
    serde_json::from_value(value).unwrap()
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

fn key() -> Key {
    Key::new("ns", "web")
}

fn simulate(world: World) -> Simulation {
    Simulation::new(world)
        .with(Deployments)
        .with(Replicas::<ReplicaSet>::default())
        .with_actor(Kubelet::default().actor())
}

/// A world in which version 1 runs.
fn rolled_out(change: Value) -> World {
    let mut world = World::default();
    world.insert(&deployment(change));
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    simulation.world
}

fn set_image(world: &mut World, image: &str) {
    world.change::<Deployment>(&key(), |d| {
        let template = &mut d.spec.template;
        template.spec.as_mut().unwrap().containers[0].image = Some(image.to_owned());
        d.metadata.annotations.as_mut().unwrap().insert("kubernetes.io/change-cause".into(), image.into());
    });
}

fn conditions(world: &World) -> Vec<(String, String, String)> {
    let deployment: Deployment = world.get(&key()).unwrap();
    let conditions = deployment.status.unwrap().conditions.unwrap();
    conditions.into_iter().map(|c| (c.type_.unwrap(), c.status.unwrap(), c.reason.unwrap())).collect()
}

/// Image, size and revision of each ReplicaSet, by revision.
fn sets(world: &World) -> Vec<(String, i32, String)> {
    let mut sets: Vec<_> = world
        .list::<ReplicaSet>()
        .into_iter()
        .map(|set| {
            let spec = set.spec;
            let image = spec.template.unwrap().spec.unwrap().containers[0].image.clone().unwrap();
            let revision = set.metadata.annotations.unwrap()[revision::REVISION].clone();
            (image, spec.replicas.unwrap(), revision)
        })
        .collect();
    sets.sort_by_key(|(_, _, revision)| revision.parse::<i64>().unwrap());
    sets
}

fn set_of(image: &str, size: i32, revision: &str) -> (String, i32, String) {
    (image.to_owned(), size, revision.to_owned())
}

fn check_complete(world: &World, replicas: i32) {
    let deployment: Deployment = world.get(&key()).unwrap();
    let status = deployment.status.unwrap();
    let is = Some(replicas).filter(|n| *n != 0);
    assert_eq!(status.observed_generation, deployment.metadata.generation);
    assert_eq!((status.replicas, status.updated_replicas), (is, is));
    assert_eq!(
        (status.ready_replicas, status.available_replicas, status.unavailable_replicas),
        (is, is, None)
    );
    let truth = |kind: &str, reason: &str| (kind.to_owned(), "True".to_owned(), reason.to_owned());
    let found = conditions(world);
    assert!(found.contains(&truth("Available", "MinimumReplicasAvailable")), "{found:?}");
    assert!(found.contains(&truth("Progressing", "NewReplicaSetAvailable")), "{found:?}");
}

#[test]
fn a_new_deployment_converges() {
    let build = || {
        let mut world = World::default();
        world.insert(&deployment(json!({})));
        simulate(world)
    };
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        check_complete(world, 4);
        assert_eq!(sets(world), [set_of("v1", 4, "1")]);
        let set = &world.list::<ReplicaSet>()[0];
        let hash = set.metadata.labels.as_ref().unwrap()[revision::HASH_LABEL].clone();
        assert_eq!(set.metadata.name, Some(format!("web-{hash}")));
        assert_eq!(set.metadata.annotations.as_ref().unwrap()["kubernetes.io/change-cause"], "first");
        for pod in world.list::<Pod>() {
            assert_eq!(pod.metadata.labels.unwrap()[revision::HASH_LABEL], hash);
            assert!(pod.metadata.name.unwrap().starts_with(&format!("web-{hash}-")));
        }
        let annotations = world.get::<Deployment>(&key()).unwrap().metadata.annotations.unwrap();
        assert_eq!(annotations[revision::REVISION], "1");
    });
}

#[test]
fn a_rolling_update_converges_within_its_limits() {
    let build = || {
        let mut world = rolled_out(
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}}),
        );
        set_image(&mut world, "v2");
        // Watches every step of the roll.
        simulate(world).with_actor(Box::new(|world| {
            let wanted: i32 = world.list::<ReplicaSet>().iter().map(|set| set.spec.replicas.unwrap()).sum();
            assert!(wanted <= 5, "more than the surge: {wanted}");
            let pods: Vec<Pod> = world.list();
            let ready =
                pods.iter().filter(|pod| crate::pods::is_ready(pod) && crate::pods::is_active(pod)).count();
            assert!(ready >= 3, "too few available: {ready}");
            false
        }))
    };
    check_convergence(build, |simulation| {
        check_complete(&simulation.world, 4);
        assert_eq!(sets(&simulation.world), [set_of("v1", 0, "1"), set_of("v2", 4, "2")]);
    });
}

#[test]
fn going_back_reuses_the_old_set_with_a_new_revision() {
    let mut world = rolled_out(json!({}));
    set_image(&mut world, "v2");
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    let start = simulation.world;
    let build = || {
        let mut world = start.copy();
        set_image(&mut world, "v1");
        simulate(world)
    };
    check_convergence(build, |simulation| {
        check_complete(&simulation.world, 4);
        assert_eq!(sets(&simulation.world), [set_of("v2", 0, "2"), set_of("v1", 4, "3")]);
    });
}

#[test]
fn recreate_never_mixes_versions() {
    let start = rolled_out(json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let build = || {
        let mut world = start.copy();
        set_image(&mut world, "v2");
        simulate(world).with_actor(Box::new(|world| {
            let images: std::collections::BTreeSet<_> = world
                .list::<Pod>()
                .into_iter()
                .map(|p| p.spec.unwrap().containers[0].image.clone())
                .collect();
            assert!(images.len() <= 1, "both versions at once");
            false
        }))
    };
    check_convergence(build, |simulation| {
        check_complete(&simulation.world, 4);
        assert_eq!(sets(&simulation.world), [set_of("v1", 0, "1"), set_of("v2", 4, "2")]);
    });
}

#[test]
fn history_is_limited() {
    let mut world = rolled_out(json!({"spec": {"revisionHistoryLimit": 2}}));
    for version in 2..=6 {
        set_image(&mut world, &format!("v{version}"));
        let mut simulation = simulate(world);
        simulation.settle().unwrap();
        world = simulation.world;
    }
    assert_eq!(sets(&world), [set_of("v4", 0, "4"), set_of("v5", 0, "5"), set_of("v6", 4, "6")]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let start = rolled_out(json!({}));
    let build = || {
        let mut world = start.copy();
        set_image(&mut world, "v2");
        world.change::<Deployment>(&key(), |d| {
            let spec = &mut d.spec;
            spec.paused = Some(true);
            spec.replicas = Some(7);
        });
        simulate(world)
    };
    check_convergence(build, |simulation| {
        assert_eq!(sets(&simulation.world), [set_of("v1", 7, "1")]);
        let paused = ("Progressing".to_owned(), "Unknown".to_owned(), "DeploymentPaused".to_owned());
        assert!(conditions(&simulation.world).contains(&paused));
    });
    let mut simulation = build();
    simulation.settle().unwrap();
    let mut world = simulation.world;
    world.change::<Deployment>(&key(), |d| d.spec.paused = None);
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    check_complete(&simulation.world, 7);
    assert_eq!(sets(&simulation.world), [set_of("v1", 0, "1"), set_of("v2", 7, "2")]);
}

/// New pods never become ready: the roll stops half way and says so in time.
fn stuck(mut world: World) -> Simulation {
    set_image(&mut world, "broken");
    halted(world)
}

/// Pods only go.
fn halted(world: World) -> Simulation {
    Simulation::new(world).with(Deployments).with(Replicas::<ReplicaSet>::default()).with_actor(Box::new(
        |world| {
            let pods: Vec<Pod> = world.list();
            let gone = pods.iter().find(|pod| pod.metadata.deletion_timestamp.is_some());
            if let Some(pod) = gone {
                world.erase::<Pod>(&key_of(pod));
            }
            gone.is_some()
        },
    ))
}

#[test]
fn a_stuck_roll_keeps_the_old_and_misses_its_deadline() {
    let start = rolled_out(json!({"spec": {"progressDeadlineSeconds": 60}}));
    let build = || stuck(start.copy());
    check_convergence(build, |simulation| {
        assert_eq!(sets(&simulation.world), [set_of("v1", 3, "1"), set_of("broken", 2, "2")]);
        let late = ("Progressing".to_owned(), "False".to_owned(), "ProgressDeadlineExceeded".to_owned());
        assert!(conditions(&simulation.world).contains(&late), "{:?}", conditions(&simulation.world));
    });
}

#[test]
fn scaling_in_the_middle_of_a_roll_is_proportional() {
    let mut simulation = stuck(rolled_out(json!({"spec": {"replicas": 10, "progressDeadlineSeconds": 60}})));
    simulation.settle().unwrap();
    assert_eq!(sets(&simulation.world), [set_of("v1", 8, "1"), set_of("broken", 5, "2")]);
    let start = simulation.world;
    let build = || {
        let mut world = start.copy();
        world.change::<Deployment>(&key(), |d| d.spec.replicas = Some(20));
        halted(world)
    };
    check_convergence(build, |simulation| {
        let total: i32 = sets(&simulation.world).iter().map(|(_, size, _)| size).sum();
        assert_eq!(total, 25, "{:?}", sets(&simulation.world));
        assert!(sets(&simulation.world)[0].1 >= 15, "the old kept its share: {:?}", sets(&simulation.world));
    });
}

#[test]
fn scaled_to_zero_and_back() {
    let mut world = rolled_out(json!({}));
    world.change::<Deployment>(&key(), |d| d.spec.replicas = Some(0));
    let mut simulation = simulate(world);
    simulation.settle().unwrap();
    check_complete(&simulation.world, 0);
    let start = simulation.world;
    let build = || {
        let mut world = start.copy();
        world.change::<Deployment>(&key(), |d| d.spec.replicas = Some(3));
        simulate(world)
    };
    check_convergence(build, |simulation| check_complete(&simulation.world, 3));
}

#[test]
fn a_taken_name_is_a_collision() {
    let build = || {
        let mut world = World::default();
        let ours = deployment(json!({}));
        let name = revision::set_name(&ours);
        world.insert(&ours);
        let other = json!({
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"x": "y"}},
                "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": []}}},
        });
        world.insert(&serde_json::from_value::<ReplicaSet>(other).unwrap());
        simulate(world)
    };
    check_convergence(build, |simulation| {
        let deployment: Deployment = simulation.world.get(&key()).unwrap();
        assert_eq!(deployment.status.unwrap().collision_count, Some(1));
        assert_eq!(simulation.world.list::<Pod>().len(), 4);
    });
}
