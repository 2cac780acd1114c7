use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;
use crate::volume::Volumes;

fn merged(mut base: Value, more: Value) -> Value {
    fn merge(base: &mut Value, more: Value) {
        match more {
            Value::Object(fields) => fields.into_iter().for_each(|(key, value)| merge(&mut base[key], value)),
            other => *base = other,
        }
    }
    merge(&mut base, more);
    base
}

fn volume(name: &str, size: &str, more: Value) -> PersistentVolume {
    let base = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "hostPath": {"path": "/x"}}});
    serde_json::from_value(merged(base, more)).unwrap()
}

fn claim(name: &str, size: &str, more: Value) -> PersistentVolumeClaim {
    let base = json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": {"storage": size}}}});
    serde_json::from_value(merged(base, more)).unwrap()
}

fn class(name: &str, provisioner: &str, mode: &str) -> StorageClass {
    serde_json::from_value(json!({"metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": mode, "allowVolumeExpansion": true}))
    .unwrap()
}

fn node(name: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
    .unwrap()
}

struct Case {
    volumes: Vec<PersistentVolume>,
    claims: Vec<PersistentVolumeClaim>,
    classes: Vec<StorageClass>,
}

impl Case {
    fn new(volumes: Vec<PersistentVolume>, claims: Vec<PersistentVolumeClaim>) -> Self {
        Case { volumes, claims, classes: Vec::new() }
    }

    fn simulation(&self) -> Simulation {
        let mut world = World::default();
        self.volumes.iter().for_each(|volume| drop(world.insert(volume)));
        self.classes.iter().for_each(|class| drop(world.insert(class)));
        ["a", "b"].iter().for_each(|name| drop(world.insert(&node(name))));
        self.claims.iter().for_each(|claim| drop(world.insert(claim)));
        Simulation::new(world).with(Claims::default()).with(Matches::default()).with(Volumes::default())
    }

    /// The phase and the volume of each claim.
    fn check(&self, expected: &[(&str, &str, &str)]) {
        check_convergence(
            || self.simulation(),
            |simulation| {
                for (name, phase, volume) in expected {
                    let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", *name)).unwrap();
                    let found = claim.status.and_then(|status| status.phase).unwrap_or("Pending".into());
                    let bound = claim.spec.and_then(|spec| spec.volume_name).unwrap_or_default();
                    assert_eq!((found.as_str(), bound.as_str()), (*phase, *volume), "{name}");
                }
                // Nobody shares a volume.
                for volume in &self.volumes {
                    let volume: PersistentVolume =
                        simulation.world.get(&Key::new("", volume.metadata.name.clone().unwrap())).unwrap();
                    let bound = volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
                    let claims = self.claims.iter().filter(|claim| {
                        let claim: PersistentVolumeClaim = simulation.world.get(&key_of(*claim)).unwrap();
                        plan::is_bound(&claim) && plan::volume_name(&claim) == volume.metadata.name.as_deref()
                    });
                    assert_eq!(claims.count(), usize::from(bound), "{:?}", volume.metadata.name);
                }
            },
        );
    }
}

#[test]
fn claim_gets_the_smallest_volume_that_does() {
    let volumes = || {
        vec![
            volume("small", "1Gi", json!({})),
            volume("large", "9Gi", json!({})),
            volume("fit", "5Gi", json!({})),
            volume("other-class", "2Gi", json!({"spec": {"storageClassName": "x"}})),
            volume("block", "2Gi", json!({"spec": {"volumeMode": "Block"}})),
            volume("many", "2Gi", json!({"spec": {"accessModes": ["ReadWriteMany"]}})),
            volume("gold", "3Gi", json!({"spec": {"volumeAttributesClassName": "gold"}})),
            volume("labelled", "7Gi", json!({"metadata": {"labels": {"disk": "ssd"}}})),
        ]
    };
    let check = |more: Value, size: &str, expected: (&str, &str)| {
        Case::new(volumes(), vec![claim("c", size, more)]).check(&[("c", expected.0, expected.1)]);
    };
    check(json!({}), "2Gi", ("Bound", "fit"));
    check(json!({}), "6Gi", ("Bound", "labelled"));
    check(json!({}), "10Gi", ("Pending", ""));
    check(json!({"spec": {"storageClassName": "x"}}), "1Gi", ("Bound", "other-class"));
    check(json!({"spec": {"volumeMode": "Block"}}), "1Gi", ("Bound", "block"));
    check(json!({"spec": {"volumeAttributesClassName": "gold"}}), "1Gi", ("Bound", "gold"));
    check(json!({"spec": {"accessModes": ["ReadWriteMany"]}}), "1Gi", ("Bound", "many"));
    check(json!({"spec": {"selector": {"matchLabels": {"disk": "ssd"}}}}), "1Gi", ("Bound", "labelled"));
    check(json!({"spec": {"selector": {"matchLabels": {"disk": "hdd"}}}}), "1Gi", ("Pending", ""));
}

#[test]
fn claim_and_volume_can_name_each_other_beforehand() {
    let kept = |name: &str| json!({"spec": {"claimRef": {"namespace": "ns", "name": name}}});
    // A volume that is kept for a claim is that claim's, although a smaller one would do.
    let volumes = vec![volume("free", "1Gi", json!({})), volume("kept", "5Gi", kept("c"))];
    Case::new(volumes, vec![claim("c", "1Gi", json!({}))]).check(&[("c", "Bound", "kept")]);
    // Of whatever class.
    let of_other_class = merged(kept("c"), json!({"spec": {"storageClassName": "x"}}));
    let volumes = vec![volume("kept", "5Gi", of_other_class)];
    Case::new(volumes, vec![claim("c", "1Gi", json!({}))]).check(&[("c", "Bound", "kept")]);
    // And nobody else's.
    let volumes = vec![volume("kept", "5Gi", kept("other"))];
    Case::new(volumes, vec![claim("c", "1Gi", json!({}))]).check(&[("c", "Pending", "")]);
    let named = |volume: &str| claim("c", "1Gi", json!({"spec": {"volumeName": volume}}));
    let volumes = || {
        vec![
            volume("a", "1Gi", json!({})),
            volume("b", "5Gi", json!({})),
            volume("kept", "5Gi", kept("other")),
        ]
    };
    Case::new(volumes(), vec![named("b")]).check(&[("c", "Bound", "b")]);
    Case::new(volumes(), vec![named("kept")]).check(&[("c", "Pending", "kept")]);
    Case::new(volumes(), vec![named("none")]).check(&[("c", "Pending", "none")]);
}

#[test]
fn volume_goes_to_one_of_many_claims() {
    let claims = || (0..4).map(|i| claim(&format!("c{i}"), "1Gi", json!({}))).collect::<Vec<_>>();
    let volumes = || (0..3).map(|i| volume(&format!("v{i}"), "1Gi", json!({}))).collect::<Vec<_>>();
    let case = Case::new(volumes(), claims());
    check_convergence(
        || case.simulation(),
        |simulation| {
            let bound = case.claims.iter().filter(|claim| {
                let claim: PersistentVolumeClaim = simulation.world.get(&key_of(*claim)).unwrap();
                plan::is_bound(&claim)
            });
            assert_eq!(bound.count(), 3);
        },
    );
    case.check(&[]);
}

#[test]
fn local_claim_waits_for_its_pod_and_gets_a_volume_on_its_node() {
    let class = || class("local", "local.minik8s.io", "WaitForFirstConsumer");
    let make = |more: Value| {
        let base = json!({"spec": {"storageClassName": "local"}});
        let mut case = Case::new(Vec::new(), vec![claim("c", "1Gi", merged(base, more))]);
        case.classes.push(class());
        case
    };
    make(json!({})).check(&[("c", "Pending", "")]);
    let selected =
        |node: &str| json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}});
    let case = make(selected("b"));
    case.check(&[("c", "Bound", "pvc-uid-c")]);
    let mut simulation = case.simulation();
    simulation.settle().unwrap();
    let made: PersistentVolume = simulation.world.get(&Key::new("", "pvc-uid-c")).unwrap();
    assert_eq!(crate::local::node_of(&made), Some("b"));
    assert!(crate::fit::reaches(&made, &node("b")) && !crate::fit::reaches(&made, &node("a")));
    assert_eq!(made.spec.unwrap().persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
    // A node that has gone meanwhile is not waited for: the scheduler chooses again.
    make(selected("gone")).check(&[("c", "Pending", "")]);
    let many = merged(selected("a"), json!({"spec": {"accessModes": ["ReadWriteMany"]}}));
    make(many).check(&[("c", "Pending", "")]);
}

/// The phase of a claim.
fn phase(simulation: &Simulation, name: &str) -> Option<String> {
    let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", name)).unwrap();
    claim.status.and_then(|status| status.phase)
}

#[test]
fn local_claim_without_a_ready_node_is_served_when_one_is_ready() {
    let mut world = World::default();
    world.insert(&class("now", "local.minik8s.io", "Immediate"));
    world.insert(&claim("c", "1Gi", json!({"spec": {"storageClassName": "now"}})));
    let mut waiting = node("a");
    waiting.status = None;
    world.insert(&waiting);
    let mut simulation = Simulation::new(world).with(Claims::default()).with(Volumes::default());
    simulation.settle().unwrap();
    assert_eq!(phase(&simulation, "c"), None);
    simulation.world.change::<Node>(&Key::new("", "a"), |found| found.status = node("a").status);
    simulation.settle().unwrap();
    assert_eq!(phase(&simulation, "c").as_deref(), Some("Bound"));
}

fn capacity(node: &str, size: &str) -> CSIStorageCapacity {
    let name = local_volume::capacity_name(node);
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": "local", "capacity": size}))
    .unwrap()
}

#[test]
fn local_claim_larger_than_the_disk_is_not_bound() {
    let check = |mode: &str, selected: Value, free: [&str; 2], expected: Option<&str>| {
        let mut world = World::default();
        world.insert(&class("local", "local.minik8s.io", mode));
        for (name, free) in ["a", "b"].iter().zip(free) {
            world.insert(&node(name));
            world.insert(&capacity(name, free));
        }
        let base = json!({"spec": {"storageClassName": "local"}});
        world.insert(&claim("c", "5Gi", merged(base, selected)));
        let mut simulation = Simulation::new(world).with(Claims::default()).with(Volumes::default());
        simulation.settle().unwrap();
        let made: Option<PersistentVolume> = simulation.world.get(&Key::new("", "pvc-uid-c"));
        assert_eq!(made.as_ref().and_then(crate::local::node_of), expected, "{mode} {free:?}");
        simulation
    };
    let on_a = || json!({"metadata": {"annotations": {SELECTED_NODE: "a"}}});
    check("WaitForFirstConsumer", on_a(), ["5Gi", "0"], Some("a"));
    let simulation = check("WaitForFirstConsumer", on_a(), ["4Gi", "9Gi"], None);
    let left: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
    assert_eq!(annotation(&left.metadata, SELECTED_NODE), None, "the scheduler chooses again");
    for free in [["1Gi", "6Gi"], ["5Gi", "1Gi"]] {
        check("Immediate", json!({}), free, Some(if free[0] == "1Gi" { "b" } else { "a" }));
    }
    let mut simulation = check("Immediate", json!({}), ["1Gi", "4Gi"], None);
    let key = Key::new(local_volume::CAPACITY_NAMESPACE, local_volume::capacity_name("b"));
    simulation.world.change::<CSIStorageCapacity>(&key, |told| told.capacity = capacity("b", "6Gi").capacity);
    simulation.settle().unwrap();
    assert_eq!(phase(&simulation, "c").as_deref(), Some("Bound"), "tried again when there is room");
}

#[test]
fn clone_of_an_unbound_claim_is_made_when_that_is_bound() {
    let class = class("local", "local.minik8s.io", "WaitForFirstConsumer");
    let selected =
        json!({"metadata": {"annotations": {SELECTED_NODE: "a"}}, "spec": {"storageClassName": "local"}});
    let source = json!({"kind": "PersistentVolumeClaim", "name": "source"});
    let copied = json!({"spec": {"dataSource": source, "dataSourceRef": source}});
    let original = claim("source", "1Gi", json!({"spec": {"storageClassName": "local"}}));
    let copy = claim("copy", "1Gi", merged(selected.clone(), copied));
    let mut case = Case::new(Vec::new(), vec![copy, original]);
    case.classes.push(class);
    let mut simulation = case.simulation();
    simulation.settle().unwrap();
    assert_eq!((phase(&simulation, "source"), phase(&simulation, "copy")), (None, None));
    simulation.world.change::<PersistentVolumeClaim>(&Key::new("ns", "source"), |found| {
        found.metadata.annotations = claim("source", "1Gi", selected).metadata.annotations;
    });
    simulation.settle().unwrap();
    for name in ["source", "copy"] {
        assert_eq!(phase(&simulation, name).as_deref(), Some("Bound"), "{name}");
    }
}

#[test]
fn claim_without_a_class_gets_the_default_when_there_is_one() {
    let mut wish = claim("c", "1Gi", json!({}));
    wish.spec.as_mut().unwrap().storage_class_name = None;
    let mut case = Case::new(vec![volume("v", "1Gi", json!({}))], vec![wish]);
    let mut default = class("by-hand", "kubernetes.io/no-provisioner", "Immediate");
    default.metadata.annotations = Some([(IS_DEFAULT.to_owned(), "true".to_owned())].into());
    case.check(&[("c", "Pending", "")]);
    case.classes.push(default);
    case.check(&[("c", "Bound", "v")]);
}

#[test]
fn claim_of_another_provisioner_is_left_to_it() {
    let mut case = Case::new(Vec::new(), vec![claim("c", "1Gi", json!({"spec": {"storageClassName": "x"}}))]);
    case.classes.push(class("x", "example.com/disk", "Immediate"));
    case.check(&[("c", "Pending", "")]);
    let mut simulation = case.simulation();
    simulation.settle().unwrap();
    let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
    let told = crate::annotation::annotation(&claim.metadata, "volume.kubernetes.io/storage-provisioner");
    assert_eq!(told, Some("example.com/disk"));
}

#[test]
fn claim_that_has_lost_its_volume_says_so() {
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "gone"}});
    Case::new(Vec::new(), vec![claim("c", "1Gi", bound)]).check(&[("c", "Lost", "gone")]);
}

#[test]
fn claim_in_use_is_deleted_when_its_last_pod_is_gone() {
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "a",
        "containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}),
    )
    .unwrap();
    let mut simulation =
        Case::new(vec![volume("v", "1Gi", json!({}))], vec![claim("c", "1Gi", json!({}))]).simulation();
    let pod = simulation.world.insert(&pod);
    simulation.settle().unwrap();
    let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
    simulation.world.apply(&minik8s_runtime::Action::delete(&claim)).unwrap();
    simulation.settle().unwrap();
    assert!(simulation.world.get::<PersistentVolumeClaim>(&Key::new("ns", "c")).is_some(), "a pod uses it");
    simulation.world.apply(&minik8s_runtime::Action::delete(&pod).with_grace(0)).unwrap();
    simulation.settle().unwrap();
    assert!(simulation.world.get::<PersistentVolumeClaim>(&Key::new("ns", "c")).is_none());
    let volume: PersistentVolume = simulation.world.get(&Key::new("", "v")).unwrap();
    assert_eq!(volume.status.unwrap().phase.as_deref(), Some("Released"));
}

#[test]
fn claim_that_a_pod_brought_goes_before_the_object_of_the_pod() {
    let volumes = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "named"}}]);
    let metadata = json!({"name": "p", "namespace": "ns", "finalizers": ["foregroundDeletion"]});
    let spec = json!({"nodeName": "a", "containers": [], "volumes": volumes});
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    let claims = ["p-v", "named"];
    let all = claims.map(|name| claim(name, "1Gi", json!({}))).to_vec();
    let mut simulation =
        Case::new(vec![volume("a", "1Gi", json!({})), volume("b", "1Gi", json!({}))], all).simulation();
    simulation.world.insert(&pod);
    simulation.settle().unwrap();
    for name in claims {
        simulation.world.delete::<PersistentVolumeClaim>(&Key::new("ns", name));
    }
    simulation.settle().unwrap();
    let is_there = |simulation: &Simulation| {
        claims.map(|name| simulation.world.get::<PersistentVolumeClaim>(&Key::new("ns", name)).is_some())
    };
    assert_eq!(is_there(&simulation), [true, true], "the pod runs");
    simulation.world.change::<Pod>(&Key::new("ns", "p"), |pod| {
        pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-19T04:00:00Z")).unwrap();
        pod.metadata.deletion_grace_period_seconds = Some(0);
    });
    simulation.settle().unwrap();
    assert_eq!(is_there(&simulation), [false, true], "the pod's object waits for the claim that it brought");
}

#[test]
fn growth_raises_the_volume_and_waits_for_the_node() {
    let base = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}, "spec": {"storageClassName": "local"}});
    let mut case = Case::new(Vec::new(), vec![claim("c", "1Gi", base)]);
    case.classes.push(class("local", "local.minik8s.io", "WaitForFirstConsumer"));
    let mut simulation = case.simulation();
    simulation.settle().unwrap();
    let bound: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
    let patch = json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}});
    simulation.world.apply(&minik8s_runtime::Action::patch(&bound, patch)).unwrap();
    simulation.settle().unwrap();
    let made: PersistentVolume = simulation.world.get(&Key::new("", "pvc-uid-c")).unwrap();
    assert_eq!(crate::fit::capacity(&made).to_string(), "3Gi");
    let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
    let status = claim.status.unwrap();
    assert_eq!(status.capacity.unwrap()["storage"].0, "1Gi");
    assert_eq!(status.conditions.unwrap()[0].type_, "FileSystemResizePending");
}

#[test]
fn matches_deal_out_a_thousand_volumes_in_one_plan() {
    let mut world = World::default();
    for i in 0..1000 {
        world.insert(&volume(&format!("v{i}"), "1Gi", json!({})));
        world.insert(&claim(&format!("c{i}"), "1Gi", json!({})));
    }
    let simulation = Simulation::new(world).with(Claims::default());
    let caches = simulation.world.caches();
    let matches = Matches::default();
    matches.watch(&Watches::new(caches.clone(), Arc::new(|_| {})));
    let seen = matches.observe(caches, &"by-hand".to_owned()).unwrap();
    let plan = matches.plan(&seen, Timestamp::UNIX_EPOCH);
    let volumes: std::collections::BTreeSet<_> =
        plan.actions.iter().map(|action| action.subject().1.name).collect();
    assert_eq!((plan.actions.len(), volumes.len()), (1000, 1000));
}
