//! Builds in a world in memory: the pods, what becomes of them, and when a revision serves.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::jiff::SignedDuration;
use minik8s_meta::function::{BUILD_LABEL, DEPENDENCIES_ANNOTATION, Function, REVISION_READY};
use minik8s_runtime::testing::{Actor, Kubelet, Simulation, World, check_convergence, set_pod_phase};
use minik8s_runtime::{Key, key_of as object_key};
use serde_json::{Value, json};

use super::{FAILED, key_of};
use crate::controller::FunctionController;
use crate::revision::Code;
use crate::status::{self, has_ended, is_ready};
use crate::zip;

const IMAGE: &str = "registry.minik8s.local/ns/function-dependencies@sha256:00";

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

fn archive(code: &str, requirements: &str) -> String {
    let files = [("main.py", code), ("requirements.txt", requirements)];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    STANDARD.encode(zip::pack(&files).unwrap())
}

fn function(name: &str, code: &str, requirements: &str) -> Function {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1},
        "spec": {"runtime": "python3.11", "code": {"zip": archive(code, requirements)}},
    }))
    .unwrap()
}

/// What the server does with a pod that has its packages.
fn server() -> Actor {
    Box::new(|world: &mut World| {
        let pods: Vec<Pod> = world.list();
        let Some(pod) = pods.iter().find(|pod| key_of(pod).is_some() && is_ready(pod)) else { return false };
        let hash = crate::revision::hash_of(&pod.metadata).to_owned();
        let maps: Vec<ConfigMap> = world.list();
        let map = maps.iter().find(|map| crate::revision::hash_of(&map.metadata) == hash).unwrap();
        let annotations = map.metadata.annotations.clone().unwrap_or_default();
        if annotations.contains_key(DEPENDENCIES_ANNOTATION) {
            return false;
        }
        world.change::<ConfigMap>(&object_key(map), |map| {
            let annotations = map.metadata.annotations.get_or_insert_default();
            annotations.insert(DEPENDENCIES_ANNOTATION.to_owned(), IMAGE.to_owned());
        });
        true
    })
}

/// Every build fails; whatever else is started runs.
fn failing() -> Actor {
    Box::new(|world: &mut World| {
        let pods: Vec<Pod> = world.list();
        for pod in &pods {
            if pod.metadata.deletion_timestamp.is_some() {
                world.erase::<Pod>(&object_key(pod));
                return true;
            }
            if !has_ended(pod) && !is_ready(pod) {
                let phase = if key_of(pod).is_some() { "Failed" } else { "Running" };
                set_pod_phase(world, &object_key(pod), phase);
                return true;
            }
        }
        false
    })
}

fn build(functions: &[Function]) -> Simulation {
    let mut world = World::default();
    functions.iter().for_each(|function| drop(world.insert(function)));
    Simulation::new(world)
        .with(FunctionController::default())
        .with_actor(Kubelet::default().actor())
        .with_actor(server())
}

fn ready(simulation: &Simulation, name: &str) -> (String, String) {
    let function: Function = simulation.world.get(&key(name)).unwrap();
    let condition = status::condition(&function, REVISION_READY).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

#[test]
fn revision_serves_once_its_dependencies_are_there() {
    check_convergence(
        || build(&[function("f", "def main(p): return p", "six")]),
        |simulation| {
            assert_eq!(ready(simulation, "f").0, "True");
            assert!(
                simulation.world.list::<Pod>().iter().all(|pod| key_of(pod).is_none()),
                "no build is left"
            );
            let maps = simulation.world.list::<ConfigMap>();
            assert_eq!(maps[0].metadata.annotations.as_ref().unwrap()[DEPENDENCIES_ANNOTATION], IMAGE);
        },
    );
}

#[test]
fn instances_mount_what_was_built() {
    let mut simulation = build(&[function("f", "def main(p): return p", "six")]);
    simulation.stop_at(SignedDuration::from_secs(5));
    simulation.settle().unwrap();
    let pods: Vec<Value> =
        simulation.world.list::<Pod>().iter().map(|pod| serde_json::to_value(pod).unwrap()).collect();
    let [instance] = pods.as_slice() else { panic!("{pods:?}") };
    assert_eq!(instance["spec"]["volumes"][2]["image"]["reference"], IMAGE);
}

/// A function that asks for the same takes what is there, and other code of the same function does.
#[test]
fn same_inputs_are_built_once_in_a_namespace() {
    let mut simulation = build(&[function("f", "def main(p): return 1", "six")]);
    simulation.settle().unwrap();
    let mut world = simulation.world;
    world.insert(&function("g", "def main(p): return 2", "six"));
    // Nobody builds any more.
    let mut simulation =
        Simulation::new(world).with(FunctionController::default()).with_actor(Kubelet::default().actor());
    simulation.settle().unwrap();
    assert_eq!(ready(&simulation, "g").0, "True");
    let keys: Vec<_> = simulation
        .world
        .list::<ConfigMap>()
        .into_iter()
        .filter_map(|map| map.metadata.labels.and_then(|labels| labels.get(BUILD_LABEL).cloned()))
        .collect();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}

#[test]
fn failed_build_is_told_and_the_revision_before_serves() {
    let mut simulation = build(&[function("f", "def main(p): return 1", "six")]);
    simulation.settle().unwrap();
    let mut world = simulation.world;
    let serving = world.get::<Function>(&key("f")).unwrap().status.unwrap().serving;
    world.change::<Function>(&key("f"), |function| {
        function.spec.code.as_mut().unwrap().zip = Some(archive("def main(p): return 2", "no such thing"));
        function.metadata.generation = Some(2);
    });
    let mut simulation = Simulation::new(world).with(FunctionController::default()).with_actor(failing());
    simulation.stop_at(SignedDuration::from_secs(40));
    simulation.settle().unwrap();
    let status = simulation.world.get::<Function>(&key("f")).unwrap().status.unwrap();
    assert_eq!((status.revision, status.serving_revision, &status.serving), (2, 1, &serving));
    assert_eq!(ready(&simulation, "f"), ("False".to_owned(), FAILED.to_owned()));
    let failure = status.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.count), (FAILED, 2), "after 15 s once more, then later");
}

/// A hostile package in the pod finds no credentials, no other user, nothing to write to but its own folder.
#[test]
fn build_has_fewer_rights_than_an_instance() {
    let mut function = function("f", "", "six");
    function.spec.service_account_name = Some("powerful".to_owned());
    function.spec.env = serde_json::from_value(json!([{"name": "SECRET", "value": "x"}])).unwrap();
    let inputs = super::inputs(&function.spec).unwrap();
    let settings = [("PIP_INDEX_URL".to_owned(), "https://index.example/".to_owned())].into();
    let pod = super::pod::pod(&function, "hash", &inputs, &Code::Map, &settings).unwrap();
    let pod = serde_json::to_value(pod).unwrap();
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["serviceAccountName"], Value::Null);
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    let names: Vec<&str> =
        container["env"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["FN_BUILD", "FN_BUILD_UID", "FN_SETTINGS"]);
    assert_eq!(pod["metadata"]["namespace"], "ns");
}
