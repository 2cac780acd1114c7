use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::names::{BEING_DELETED, BOUND, CLAIM};
use super::*;

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn snapshot(name: &str, source: Value, class: Option<&str>) -> VolumeSnapshot {
    read(json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
        "spec": {"source": source, "volumeSnapshotClassName": class}}))
}

fn of_claim(name: &str) -> VolumeSnapshot {
    snapshot(name, json!({"persistentVolumeClaimName": "c"}), None)
}

fn class(name: &str, driver: &str, policy: &str, is_default: bool) -> VolumeSnapshotClass {
    let annotations = json!({names::IS_DEFAULT: is_default.to_string()});
    read(
        json!({"metadata": {"name": name, "annotations": annotations}, "driver": driver, "deletionPolicy": policy,
        "parameters": {"kind": "fast", "csi.storage.k8s.io/snapshotter-secret-name": "s-${volumesnapshot.name}",
            "csi.storage.k8s.io/snapshotter-secret-namespace": "${volumesnapshot.namespace}"}}),
    )
}

/// A world with a bound claim, its volume and a class.
fn world(policy: &str) -> World {
    let mut world = World::default();
    world.insert::<PersistentVolumeClaim>(&read(
        json!({"metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {"volumeName": "v"}}),
    ));
    world
        .insert::<PersistentVolume>(&read(json!({"metadata": {"name": "v"}, "spec": {"volumeMode": "Block",
        "csi": {"driver": "d", "volumeHandle": "h"}}})));
    world.insert(&class("k", "d", policy, true));
    world
}

fn content(world: &World, name: &str) -> Option<VolumeSnapshotContent> {
    world.get(&Key::new("", name))
}

/// What a driver's part does: makes what is wanted, and removes what is let go.
fn storage_system(world: &mut World) {
    for one in world.list::<VolumeSnapshotContent>() {
        let key = key_of(&one);
        if one.metadata.deletion_timestamp.is_some() {
            if one.metadata.annotations.iter().flatten().any(|(key, _)| key == BEING_DELETED) {
                world.change::<VolumeSnapshotContent>(&key, |one| one.metadata.finalizers = None);
            }
        } else if one.status.is_none() {
            world.change::<VolumeSnapshotContent>(&key, |one| {
                one.status = read(json!({"snapshotHandle": "x", "readyToUse": true, "restoreSize": 1 << 30,
                    "creationTime": 1_767_225_600_000_000_000_i64}));
            });
        }
    }
}

fn settled(world: World) -> World {
    let mut simulation = Simulation::new(world).with(Snapshots).with(Contents);
    for _ in 0..4 {
        simulation.settle().unwrap();
        storage_system(&mut simulation.world);
    }
    simulation.settle().unwrap();
    simulation.world
}

#[test]
fn snapshot_of_a_claim_gets_its_content_and_says_what_became_of_it() {
    let build = || {
        let mut world = world("Delete");
        world.insert(&of_claim("s"));
        Simulation::new(world).with(Snapshots).with(Contents)
    };
    check_convergence(build, |simulation| {
        let made = content(&simulation.world, "snapcontent-uid-s").unwrap();
        assert_eq!(made.spec.source.volume_handle.as_deref(), Some("h"));
        assert_eq!(made.spec.source_volume_mode.as_deref(), Some("Block"));
        assert_eq!((made.spec.driver.as_str(), made.spec.deletion_policy.as_str()), ("d", "Delete"));
        let annotations = made.metadata.annotations.unwrap();
        assert_eq!(annotations[names::DELETION_SECRET], "s-s");
        let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
        assert_eq!(claim.metadata.finalizers, Some(vec![CLAIM.to_owned()]), "the claim stays meanwhile");
    });
    let mut before = world("Delete");
    before.insert(&of_claim("s"));
    let world = settled(before);
    let told: VolumeSnapshot = world.get(&Key::new("ns", "s")).unwrap();
    let status = serde_json::to_value(told.status.unwrap()).unwrap();
    let expected = json!({"boundVolumeSnapshotContentName": "snapcontent-uid-s", "readyToUse": true,
        "restoreSize": "1Gi", "creationTime": "2026-01-01T00:00:00Z"});
    assert_eq!(status, expected);
    let claim: PersistentVolumeClaim = world.get(&Key::new("ns", "c")).unwrap();
    assert_eq!(claim.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
}

#[test]
fn content_goes_or_stays_as_its_policy_says() {
    let check = |policy: &str, stays: bool| {
        let mut before = world(policy);
        before.insert(&of_claim("s"));
        let mut ready = settled(before);
        ready.delete::<VolumeSnapshot>(&Key::new("ns", "s"));
        let after = settled(ready);
        assert!(after.get::<VolumeSnapshot>(&Key::new("ns", "s")).is_none(), "{policy}");
        let left = content(&after, "snapcontent-uid-s");
        assert_eq!(left.is_some(), stays, "{policy}");
        let told = left.and_then(|left| left.metadata.annotations).unwrap_or_default();
        assert_eq!(told.contains_key(BEING_DELETED), stays, "csi-snapshotter goes by it");
    };
    check("Delete", false);
    check("Retain", true);
}

#[test]
fn snapshot_that_a_claim_is_made_of_stays_until_that_has_its_volume() {
    let mut before = world("Delete");
    before.insert(&of_claim("s"));
    let mut ready = settled(before);
    let source = json!({"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "s"});
    ready.insert::<PersistentVolumeClaim>(&read(
        json!({"metadata": {"name": "new", "namespace": "ns", "uid": "n"},
        "spec": {"dataSource": source}}),
    ));
    ready.delete::<VolumeSnapshot>(&Key::new("ns", "s"));
    let mut waiting = settled(ready);
    assert!(waiting.get::<VolumeSnapshot>(&Key::new("ns", "s")).is_some());
    waiting.change::<PersistentVolumeClaim>(&Key::new("ns", "new"), |claim| {
        claim.spec.as_mut().unwrap().volume_name = Some("w".to_owned());
    });
    let after = settled(waiting);
    assert!(after.get::<VolumeSnapshot>(&Key::new("ns", "s")).is_none());
}

#[test]
fn snapshot_that_cannot_be_made_says_why() {
    let check = |wanted: VolumeSnapshot, more: &dyn Fn(&mut World), expected: &str| {
        let mut before = world("Delete");
        more(&mut before);
        before.insert(&wanted);
        let after = settled(before);
        let told: VolumeSnapshot = after.get(&key_of(&wanted)).unwrap();
        let error = told.status.unwrap().error.unwrap().message.unwrap();
        assert!(error.contains(expected), "{error}");
    };
    let missing = snapshot("s", json!({"persistentVolumeClaimName": "none"}), None);
    check(missing, &|_| {}, "the claim \"none\" is not there");
    let named = |name| snapshot("s", json!({"persistentVolumeClaimName": "c"}), Some(name));
    check(named("none"), &|_| {}, "volumesnapshotclass \"none\" not found");
    let other = |world: &mut World| drop(world.insert(&class("o", "other", "Delete", false)));
    check(named("o"), &other, "is of the driver other, the volume of d");
    let second = |world: &mut World| drop(world.insert(&class("k2", "d", "Delete", true)));
    check(of_claim("s"), &second, "2 default volumesnapshotclasses");
    let no_csi = |world: &mut World| {
        world.change::<PersistentVolume>(&Key::new("", "v"), |volume| {
            volume.spec.as_mut().unwrap().csi = None
        });
    };
    check(of_claim("s"), &no_csi, "has no snapshots");
    let unbound = |world: &mut World| {
        world.change::<PersistentVolumeClaim>(&Key::new("ns", "c"), |claim| claim.spec = None);
    };
    check(of_claim("s"), &unbound, "not bound to a volume yet");
}

#[test]
fn content_made_by_hand_is_only_for_the_snapshot_that_it_names() {
    let by_hand = |namespace: &str, name: &str, uid: Option<&str>| -> VolumeSnapshotContent {
        read(
            json!({"metadata": {"name": "old", "finalizers": [names::CONTENT]}, "spec": {"driver": "d", "deletionPolicy": "Retain",
            "source": {"snapshotHandle": "x"}, "volumeSnapshotRef": {"namespace": namespace, "name": name, "uid": uid}},
            "status": {"snapshotHandle": "x", "readyToUse": true}}),
        )
    };
    let check = |content: VolumeSnapshotContent, is_bound: bool| {
        let mut before = world("Delete");
        before.insert(&content);
        before.insert(&snapshot("s", json!({"volumeSnapshotContentName": "old"}), None));
        let after = settled(before);
        let told: VolumeSnapshot = after.get(&Key::new("ns", "s")).unwrap();
        let status = told.status.unwrap();
        assert_eq!(status.bound_volume_snapshot_content_name.is_some(), is_bound, "{content:?}");
        assert_eq!(status.ready_to_use, Some(is_bound));
        assert!(told.metadata.finalizers.unwrap().contains(&BOUND.to_owned()));
    };
    check(by_hand("ns", "s", None), true);
    check(by_hand("ns", "s", Some("uid-s")), true);
    check(by_hand("other", "s", None), false);
    check(by_hand("ns", "other", None), false);
    check(by_hand("ns", "s", Some("of-another")), false);
}
