use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;

const UNIQUE: &str = "kubernetes.io/csi/d.example^h";

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn node(name: &str, in_use: &[&str], attached: &[&str], taint: Option<&str>) -> Node {
    let attached: Vec<Value> = attached.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
    let taints: Vec<Value> = taint.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
    read(json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"taints": taints},
        "status": {"volumesInUse": in_use, "volumesAttached": attached}}))
}

fn pod(name: &str, node: &str, phase: &str) -> Pod {
    read(json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"nodeName": node, "containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        "status": {"phase": phase}}))
}

fn attachment(node: &str, attached: bool) -> VolumeAttachment {
    let name = minik8s_csi::attachment_name("d.example", "h", node);
    read(json!({"metadata": {"name": name, "uid": name},
        "spec": {"attacher": "d.example", "nodeName": node, "source": {"persistentVolumeName": "v"}},
        "status": {"attached": attached}}))
}

struct Case {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    attachments: Vec<VolumeAttachment>,
    mode: &'static str,
    attach_required: bool,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            nodes: vec![node("a", &[], &[], None), node("b", &[], &[], None)],
            pods: Vec::new(),
            attachments: Vec::new(),
            mode: "ReadWriteOnce",
            attach_required: true,
        }
    }
}

impl Case {
    fn simulation(&self) -> Simulation {
        let mut world = World::default();
        let volume: PersistentVolume = read(json!({"metadata": {"name": "v", "uid": "v"}, "spec": {
            "accessModes": [self.mode], "csi": {"driver": "d.example", "volumeHandle": "h"},
            "claimRef": {"namespace": "ns", "name": "c", "uid": "c"}}}));
        world.insert(&volume);
        let claim: PersistentVolumeClaim = read(
            json!({"metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "spec": {"volumeName": "v"}}),
        );
        world.insert(&claim);
        let driver: CSIDriver = read(
            json!({"metadata": {"name": "d.example"}, "spec": {"attachRequired": self.attach_required}}),
        );
        world.insert(&driver);
        self.nodes.iter().for_each(|node| drop(world.insert(node)));
        self.pods.iter().for_each(|pod| drop(world.insert(pod)));
        self.attachments.iter().for_each(|attachment| drop(world.insert(attachment)));
        Simulation::new(world).with(Attachments)
    }

    /// The nodes that it is attached to in the end, and those whose lists say so.
    fn check(&self, expected: &[&str], told: &[&str]) {
        check_convergence(
            || self.simulation(),
            |simulation| {
                let mut nodes: Vec<String> = simulation
                    .world
                    .list::<VolumeAttachment>()
                    .into_iter()
                    .map(|one| one.spec.node_name)
                    .collect();
                nodes.sort();
                assert_eq!(nodes, expected);
                let lists = simulation.world.list::<Node>().into_iter().filter(|node| {
                    node.status.as_ref().is_some_and(|status| {
                        status.volumes_attached.iter().flatten().any(|v| v.name == UNIQUE)
                    })
                });
                let mut lists: Vec<String> = lists.filter_map(|node| node.metadata.name).collect();
                lists.sort();
                assert_eq!(lists, told);
            },
        );
    }
}

#[test]
fn volume_is_attached_where_a_pod_uses_it() {
    Case { pods: vec![pod("p", "a", "Pending")], ..Case::default() }.check(&["a"], &[]);
    let done = Case {
        pods: vec![pod("p", "a", "Running")],
        attachments: vec![attachment("a", true)],
        ..Case::default()
    };
    done.check(&["a"], &["a"]);
    Case { pods: vec![pod("p", "a", "Pending")], attach_required: false, ..Case::default() }.check(&[], &[]);
    Case { pods: vec![pod("p", "a", "Succeeded")], ..Case::default() }.check(&[], &[]);
    Case { pods: vec![pod("p", "gone", "Pending")], ..Case::default() }.check(&[], &[]);
}

#[test]
fn volume_for_one_node_is_never_attached_to_two() {
    let two = vec![pod("p", "a", "Running"), pod("q", "b", "Pending")];
    let case = Case { pods: two.clone(), attachments: vec![attachment("a", true)], ..Case::default() };
    case.check(&["a"], &["a"]);
    // Its pod is gone, but the agent still has it.
    let mut waits = Case {
        nodes: vec![node("a", &[UNIQUE], &[UNIQUE], None), node("b", &[], &[], None)],
        pods: vec![pod("q", "b", "Pending")],
        attachments: vec![attachment("a", true)],
        ..Case::default()
    };
    waits.check(&["a"], &["a"]);
    // The agent has given it up.
    waits.nodes[0] = node("a", &[], &[UNIQUE], None);
    waits.check(&["b"], &[]);
    // The machine is said to be dead.
    waits.nodes[0] = node("a", &[UNIQUE], &[UNIQUE], Some("node.kubernetes.io/out-of-service"));
    waits.check(&["b"], &[]);
    waits.nodes[0] = node("a", &[UNIQUE], &[UNIQUE], Some("node.kubernetes.io/unreachable"));
    waits.check(&["a"], &["a"]);
    // Its Node is gone.
    waits.nodes.remove(0);
    waits.check(&["b"], &[]);
    let many = Case {
        pods: two,
        attachments: vec![attachment("a", true)],
        mode: "ReadWriteMany",
        ..Case::default()
    };
    many.check(&["a", "b"], &["a"]);
}

#[test]
fn volume_that_is_detached_is_not_attached_meanwhile() {
    let mut leaving = attachment("a", true);
    leaving.metadata.deletion_timestamp = Some(read(json!("2026-01-01T00:00:00Z")));
    leaving.metadata.finalizers = Some(vec!["external-attacher/d-example".to_owned()]);
    let case = Case { pods: vec![pod("q", "b", "Pending")], attachments: vec![leaving], ..Case::default() };
    case.check(&["a"], &[]);
}
