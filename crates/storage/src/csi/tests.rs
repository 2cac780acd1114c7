use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use minik8s_csi::Topology;
use minik8s_csi::controller::Volume;
use minik8s_runtime::testing::World;
use serde_json::{Value, json};

use super::due::{PROVISIONING, VOLUME, Work, due, nodes_for, nodes_reaching};
use super::provision;
use crate::annotation::{SELECTED_NODE, STORAGE_PROVISIONER};

const DRIVER: &str = "d.example";

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn class(mode: &str) -> StorageClass {
    read(json!({"metadata": {"name": "fast"}, "provisioner": DRIVER, "volumeBindingMode": mode,
        "reclaimPolicy": "Delete", "allowVolumeExpansion": true, "mountOptions": ["noatime"],
        "parameters": {"kind": "ssd", "csi.storage.k8s.io/fstype": "xfs",
            "csi.storage.k8s.io/provisioner-secret-name": "s-${pvc.name}",
            "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
            "csi.storage.k8s.io/node-stage-secret-name": "stage",
            "csi.storage.k8s.io/node-stage-secret-namespace": "system"}}))
}

fn claim(more: Value) -> PersistentVolumeClaim {
    let mut claim = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "u",
            "annotations": {STORAGE_PROVISIONER: DRIVER}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}}}});
    merge(&mut claim, more);
    read(claim)
}

fn volume(more: Value) -> PersistentVolume {
    let mut volume = json!({"metadata": {"name": "pvc-u", "uid": "v", "finalizers": [VOLUME],
            "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": DRIVER, "volumeHandle": "h"},
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "ns", "name": "c", "uid": "u"}},
        "status": {"phase": "Bound"}});
    merge(&mut volume, more);
    read(volume)
}

fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more,
    }
}

/// What is due with these objects, in words.
fn words(objects: impl FnOnce(&mut World), is_ours: bool) -> Vec<String> {
    let mut world = World::default();
    let annotations = if is_ours { json!({"csi.minik8s.io/controller": "agent"}) } else { json!({}) };
    world.insert::<CSIDriver>(&read(
        json!({"metadata": {"name": DRIVER, "annotations": annotations}, "spec": {}}),
    ));
    objects(&mut world);
    let word = |work: Work| match work {
        Work::Provision { .. } => "provision",
        Work::Settle { is_written: true, .. } => "settle",
        Work::Settle { is_written: false, .. } => "undo",
        Work::Expand { is_allowed: true, .. } => "expand",
        Work::Expand { is_allowed: false, .. } => "refuse to expand",
        Work::Modify { .. } => "modify",
        Work::Delete { .. } => "delete",
        Work::LetGo { .. } => "let go",
        Work::Attach { .. } => "attach",
        Work::Detach { .. } => "detach",
        Work::Snapshot { .. } => "snapshot",
        Work::DeleteSnapshot { .. } => "delete snapshot",
    };
    due(world.caches()).into_iter().map(|work| word(work).to_owned()).collect()
}

#[test]
fn claim_is_provisioned_once_and_leaves_nothing_behind() {
    let check = |mode: &str, more: Value, made: Option<Value>, expected: &[&str]| {
        let found = words(
            |world| {
                world.insert(&class(mode));
                world.insert(&claim(more.clone()));
                made.iter().for_each(|made| drop(world.insert(&volume(made.clone()))));
            },
            true,
        );
        assert_eq!(found, expected, "{mode} {more} {made:?}");
    };
    let half = json!({"metadata": {"finalizers": [PROVISIONING]}});
    let deleted =
        json!({"metadata": {"finalizers": [PROVISIONING], "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    check("Immediate", json!({}), None, &["provision"]);
    check("Immediate", json!({"metadata": {"annotations": {STORAGE_PROVISIONER: "other"}}}), None, &[]);
    check("WaitForFirstConsumer", json!({}), None, &[]);
    check(
        "WaitForFirstConsumer",
        json!({"metadata": {"annotations": {SELECTED_NODE: "a"}}}),
        None,
        &["provision"],
    );
    // Killed before the object was written, and after.
    check("Immediate", half.clone(), None, &["provision"]);
    check("Immediate", half, Some(json!({})), &["settle"]);
    check("Immediate", deleted.clone(), None, &["undo"]);
    check("Immediate", deleted, Some(json!({})), &["settle"]);
    check("Immediate", json!({"spec": {"volumeName": "pvc-u"}}), Some(json!({})), &[]);
}

#[test]
fn claim_that_wants_more_is_expanded() {
    let check = |status: Value, size: &str, expected: &[&str]| {
        let found = words(
            |world| {
                world.insert(&class("Immediate"));
                let spec = json!({"volumeName": "pvc-u", "resources": {"requests": {"storage": "2Gi"}}});
                world.insert(&claim(json!({"spec": spec, "status": status.clone()})));
                world.insert(&volume(json!({"spec": {"capacity": {"storage": size}}})));
            },
            true,
        );
        assert_eq!(found, expected, "{status} {size}");
    };
    check(json!({"capacity": {"storage": "1Gi"}}), "1Gi", &["expand"]);
    // Killed after the volume was written.
    check(json!({"capacity": {"storage": "1Gi"}}), "2Gi", &["expand"]);
    let pending = json!({"capacity": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}});
    check(pending, "2Gi", &[]);
    check(json!({"capacity": {"storage": "2Gi"}}), "2Gi", &[]);
}

#[test]
fn volume_is_modified_when_the_claim_wants_other_attributes() {
    let check = |wanted: Option<&str>, current: Option<&str>, size: &str, expected: &[&str]| {
        let found = words(
            |world| {
                world.insert(&class("Immediate"));
                let spec = json!({"volumeName": "pvc-u", "volumeAttributesClassName": wanted,
                    "resources": {"requests": {"storage": size}}});
                let status =
                    json!({"capacity": {"storage": "1Gi"}, "currentVolumeAttributesClassName": current});
                world.insert(&claim(json!({"spec": spec, "status": status})));
                world.insert(&volume(json!({})));
            },
            true,
        );
        assert_eq!(found, expected, "{wanted:?} {current:?} {size}");
    };
    check(None, None, "1Gi", &[]);
    check(Some("gold"), None, "1Gi", &["modify"]);
    check(Some("gold"), Some("silver"), "1Gi", &["modify"]);
    check(Some("gold"), Some("gold"), "1Gi", &[]);
    // Nothing that is there is taken away.
    check(None, Some("gold"), "1Gi", &[]);
    // One after the other.
    check(Some("gold"), None, "2Gi", &["expand"]);
}

#[test]
fn volume_is_deleted_only_when_its_claim_is_gone_and_it_is_nowhere_attached() {
    let check = |more: Value, is_attached: bool, expected: &[&str]| {
        let found = words(
            |world| {
                world.insert(&volume(more.clone()));
                if is_attached {
                    world.insert::<VolumeAttachment>(&read(
                        json!({"metadata": {"name": "x"}, "spec": {"attacher": "o",
                        "nodeName": "a", "source": {"persistentVolumeName": "pvc-u"}}}),
                    ));
                }
            },
            true,
        );
        assert_eq!(found, expected, "{more} {is_attached}");
    };
    let released = |more: Value| {
        let mut released = json!({"status": {"phase": "Released"}});
        merge(&mut released, more);
        released
    };
    check(json!({}), false, &[]);
    check(released(json!({})), false, &["delete"]);
    check(released(json!({})), true, &[]);
    check(released(json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})), false, &[]);
    check(
        released(json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "other"}}})),
        false,
        &[],
    );
    check(released(json!({"metadata": {"finalizers": []}})), false, &[]);
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    check(released(gone.clone()), false, &["let go"]);
    check(gone, false, &[]);
}

#[test]
fn attachment_is_carried_out() {
    let check = |more: Value, expected: &[&str]| {
        let found = words(
            |world| {
                let mut object = json!({"metadata": {"name": "x"}, "spec": {"attacher": DRIVER, "nodeName": "a",
                    "source": {"persistentVolumeName": "pvc-u"}}, "status": {"attached": false}});
                merge(&mut object, more.clone());
                world.insert::<VolumeAttachment>(&read(object));
                world.insert(&volume(json!({})));
            },
            true,
        );
        assert_eq!(found, expected, "{more}");
    };
    check(json!({}), &["attach"]);
    check(json!({"status": {"attached": true}}), &[]);
    check(json!({"spec": {"attacher": "other"}}), &[]);
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["external-attacher/d-example"]}});
    check(leaving, &["detach"]);
}

#[test]
fn drivers_of_others_are_left_alone() {
    let objects = |world: &mut World| {
        world.insert(&class("Immediate"));
        world.insert(&claim(json!({})));
        world.insert(&volume(json!({"status": {"phase": "Released"}})));
    };
    assert!(words(objects, false).is_empty());
}

#[test]
fn driver_is_told_what_class_and_claim_say() {
    let (claim, class) = (claim(json!({})), class("Immediate"));
    let call = provision::request(&claim, &class);
    assert_eq!(call.name, "pvc-u");
    assert_eq!(call.capacity_range.unwrap().required_bytes, 1 << 30);
    assert_eq!(call.parameters.into_iter().collect::<Vec<_>>(), [("kind".to_owned(), "ssd".to_owned())]);
    let topology = Topology { segments: [("zone".to_owned(), "z1".to_owned())].into() };
    let made = Volume {
        capacity_bytes: 3 << 30,
        volume_id: "h".to_owned(),
        volume_context: [("a".to_owned(), "b".to_owned())].into(),
        accessible_topology: vec![topology],
        ..Volume::default()
    };
    let volume = serde_json::to_value(provision::volume(&claim, &class, &made)).unwrap();
    assert_eq!(volume["spec"]["capacity"]["storage"], "3Gi");
    let expected = json!({"driver": DRIVER, "volumeHandle": "h", "fsType": "xfs", "volumeAttributes": {"a": "b"},
        "nodeStageSecretRef": {"name": "stage", "namespace": "system"}});
    assert_eq!(volume["spec"]["csi"], expected);
    assert_eq!(
        volume["metadata"]["annotations"]["volume.kubernetes.io/provisioner-deletion-secret-name"],
        "s-c"
    );
    let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
    assert_eq!(*term, json!({"key": "zone", "operator": "In", "values": ["z1"]}));
}

#[test]
fn driver_is_asked_where_it_is_and_the_volume_can_be_reached() {
    let node = |name: &str, ready: &str| -> Arc<Node> {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        Arc::new(read(json!({"metadata": {"name": name}, "status": {"conditions": conditions}})))
    };
    let csi = |name: &str, driver: &str| -> Arc<CSINode> {
        let drivers = json!([{"name": driver, "nodeID": name}]);
        Arc::new(read(json!({"metadata": {"name": name}, "spec": {"drivers": drivers}})))
    };
    let nodes = [node("a", "True"), node("b", "True"), node("dead", "False"), node("other", "True")];
    let csi_nodes = [csi("a", DRIVER), csi("b", DRIVER), csi("dead", DRIVER), csi("other", "o")];
    let prefers = |name: &'static str| move |node: &Node| node.metadata.name.as_deref() == Some(name);
    assert_eq!(nodes_for(DRIVER, &csi_nodes, &nodes, prefers("b")), ["b", "a"]);
    assert_eq!(nodes_for(DRIVER, &csi_nodes, &nodes, prefers("dead")), ["a", "b"]);
    assert!(nodes_for("none", &csi_nodes, &nodes, prefers("a")).is_empty());
}

#[test]
fn driver_is_asked_about_a_volume_only_where_it_is() {
    let node = |name: &str, zone: &str, ready: &str, is_cordoned: bool| -> Arc<Node> {
        Arc::new(read(json!({"metadata": {"name": name, "labels": {"zone": zone}},
            "spec": {"unschedulable": is_cordoned},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})))
    };
    let csi = |name: &str| -> Arc<CSINode> {
        let drivers = json!([{"name": DRIVER, "nodeID": name}]);
        Arc::new(read(json!({"metadata": {"name": name}, "spec": {"drivers": drivers}})))
    };
    let nodes = [
        node("a", "z1", "True", false),
        node("b", "z2", "True", true),
        node("dead", "z3", "False", false),
        node("without", "z2", "True", false),
    ];
    let csi_nodes = [csi("a"), csi("b"), csi("dead")];
    let check = |zone: Option<&str>, expected: &[&str]| {
        let volume = match zone {
            Some(zone) => volume(json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}}})),
            None => volume(json!({})),
        };
        assert_eq!(nodes_reaching(DRIVER, &csi_nodes, &nodes, &volume), expected, "{zone:?}");
    };
    check(None, &["a", "b"]);
    check(Some("z1"), &["a"]);
    check(Some("z2"), &["b"]);
    check(Some("z3"), &[]);
}

#[test]
fn snapshot_is_made_and_deleted_by_whom_it_is_for() {
    use minik8s_meta::snapshot::VolumeSnapshotContent;

    use crate::snapshot::names::{BEING_DELETED, CONTENT};

    let check = |driver: &str, more: Value, is_ours: bool, expected: &[&str]| {
        let mut object = json!({"metadata": {"name": "x", "finalizers": [CONTENT]}, "spec": {"driver": driver,
            "deletionPolicy": "Delete", "source": {"volumeHandle": "h"}, "volumeSnapshotRef": {"uid": "u"}}});
        merge(&mut object, more.clone());
        let content = object.clone();
        let found = words(|world| drop(world.insert::<VolumeSnapshotContent>(&read(content))), is_ours);
        assert_eq!(found, expected, "{driver} {more} {is_ours}");
    };
    let local = "local.minik8s.io";
    check(DRIVER, json!({}), true, &["snapshot"]);
    // Its csi-snapshotter does it.
    check(DRIVER, json!({}), false, &[]);
    check(local, json!({}), false, &["snapshot"]);
    check(local, json!({"metadata": {"finalizers": []}}), true, &[]);
    check(local, json!({"status": {"readyToUse": true}}), true, &[]);
    check(local, json!({"status": {"readyToUse": false}}), true, &["snapshot"]);
    let annotations = json!({BEING_DELETED: "yes"});
    let time = "2026-01-01T00:00:00Z";
    check(local, json!({"metadata": {"annotations": annotations}}), true, &[]);
    check(local, json!({"metadata": {"deletionTimestamp": time}}), true, &[]);
    check(
        local,
        json!({"metadata": {"deletionTimestamp": time, "annotations": annotations}}),
        true,
        &["delete snapshot"],
    );
    let unbound =
        json!({"metadata": {"deletionTimestamp": time}, "spec": {"volumeSnapshotRef": {"uid": ""}}});
    check(local, unbound, true, &["delete snapshot"]);
}

#[test]
fn volume_is_made_only_where_the_chosen_node_says_that_it_is() {
    let node = |name: &str, labels: Value| -> Arc<Node> {
        Arc::new(read(json!({"metadata": {"name": name, "labels": labels}})))
    };
    let csi = |name: &str| -> Arc<CSINode> {
        let drivers = json!([{"name": DRIVER, "nodeID": name, "topologyKeys": ["zone", "rack"]}]);
        Arc::new(read(json!({"metadata": {"name": name}, "spec": {"drivers": drivers}})))
    };
    let nodes = [
        node("a", json!({"zone": "z1", "rack": "r1"})),
        node("b", json!({"zone": "z1", "rack": "r1"})),
        // Its labels are about to be written.
        node("new", json!({"zone": "z2"})),
    ];
    let csi_nodes = [csi("a"), csi("b"), csi("new"), csi("gone")];
    let found = |driver: &str, selected: Option<&str>| {
        let found = provision::topology(driver, selected, &csi_nodes, &nodes).map_err(drop)?;
        Ok::<_, ()>(found.map(|found| found.requisite))
    };
    let segments = [("zone", "z1"), ("rack", "r1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let one = vec![Topology { segments: segments.into() }];
    assert_eq!(found(DRIVER, None), Ok(Some(one.clone())));
    assert_eq!(found(DRIVER, Some("b")), Ok(Some(one)));
    assert_eq!(found(DRIVER, Some("new")), Err(()));
    assert_eq!(found(DRIVER, Some("gone")), Err(()));
    assert_eq!(found("o", Some("a")), Ok(None));
}
