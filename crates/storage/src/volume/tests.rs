use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;

fn volume(policy: &str, more: Value) -> PersistentVolume {
    let mut object = json!({"metadata": {"name": "v", "uid": "v"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": policy}});
    object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn simulation(volume: &PersistentVolume, with_node: bool) -> Simulation {
    let mut world = World::default();
    world.insert(volume);
    if with_node {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        world.insert(&node);
    }
    Simulation::new(world).with(Volumes::default())
}

fn check(policy: &str, more: Value, expected: Option<&str>) {
    let volume = volume(policy, more);
    check_convergence(
        || simulation(&volume, true),
        |simulation| {
            let found = simulation.world.get::<PersistentVolume>(&Key::new("", "v"));
            let phase = found.map(|volume| volume.status.and_then(|status| status.phase).unwrap_or_default());
            assert_eq!(phase.as_deref(), expected, "{policy}");
        },
    );
}

fn of_gone_claim(source: Value) -> Value {
    let mut spec = json!({"claimRef": {"namespace": "ns", "name": "gone", "uid": "u"}});
    spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    spec
}

fn image() -> Value {
    json!({"csi": {"driver": "local.minik8s.io", "volumeHandle": "v", "volumeAttributes": {"node": "a"}}})
}

#[test]
fn volume_without_a_claim_is_available() {
    check("Retain", json!({"hostPath": {"path": "/x"}}), Some("Available"));
    check(
        "Retain",
        json!({"hostPath": {"path": "/x"}, "claimRef": {"namespace": "ns", "name": "later"}}),
        Some("Available"),
    );
}

#[test]
fn volume_whose_claim_is_gone_is_reclaimed_as_its_policy_says() {
    check("Retain", of_gone_claim(json!({"hostPath": {"path": "/x"}})), Some("Released"));
    check("Retain", of_gone_claim(image()), Some("Released"));
    check("Recycle", of_gone_claim(json!({"hostPath": {"path": "/x"}})), Some("Failed"));
    check("Delete", of_gone_claim(json!({"hostPath": {"path": "/x"}})), Some("Failed"));
    check("Delete", of_gone_claim(image()), None);
    let of_driver = json!({"csi": {"driver": "x.example", "volumeHandle": "h"}});
    check("Delete", of_gone_claim(of_driver), Some("Released"));
}

#[test]
fn image_of_a_deleted_volume_is_its_nodes_to_remove() {
    let mut volume = volume("Delete", of_gone_claim(image()));
    volume.metadata.finalizers = Some(vec!["local.minik8s.io/image".to_owned()]);
    let finalizers = |with_node: bool| {
        let mut simulation = simulation(&volume, with_node);
        simulation.settle().unwrap();
        simulation.world.get::<PersistentVolume>(&Key::new("", "v")).map(|volume| volume.metadata.finalizers)
    };
    assert_eq!(finalizers(true), Some(Some(vec!["local.minik8s.io/image".to_owned()])));
    assert_eq!(finalizers(false), None, "nobody else can do it");
}
