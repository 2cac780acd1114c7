use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minik8s_runtime::Key;
use minik8s_runtime::testing::{Actor, Simulation, World, check_convergence, set_pod_phase};
use serde_json::{Value, json};

use super::jobs::{ABANDON, FINALIZER};
use super::*;
use crate::kinds::{GpuJob, GpuJobStatus, Phase, SlurmCluster};

fn job(spec: Value) -> GpuJob {
    let metadata = json!({"name": "matmul", "namespace": "ns"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn cluster(name: &str) -> SlurmCluster {
    let spec = json!({"host": "h", "user": "u", "hostKey": "k", "secretRef": {"name": "key"}});
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})).unwrap()
}

fn world(clusters: &[&str], spec: Value) -> World {
    let mut world = World::default();
    for name in clusters {
        world.insert(&cluster(name));
    }
    world.insert(&job(spec));
    world
}

fn key() -> Key {
    Key::new("ns", "matmul")
}

fn pod_key() -> Key {
    Key::new("ns", "matmul-submit")
}

fn status(world: &World) -> GpuJobStatus {
    world.get::<GpuJob>(&key()).unwrap().status.unwrap_or_default()
}

/// Plays the program in the pod: ends the job well, or leaves nothing of one that is deleted.
fn program() -> Actor {
    Box::new(|world| {
        let Some(pod) = world.get::<Pod>(&pod_key()) else { return false };
        let Some(job) = world.get::<GpuJob>(&key()) else { return false };
        let old = job.status.clone().unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            world.erase::<Pod>(&pod_key());
            return true;
        }
        if old.cleaned {
            let phase = pod.status.and_then(|status| status.phase);
            let ended = phase.as_deref() == Some("Succeeded");
            if !ended {
                set_pod_phase(world, &pod_key(), "Succeeded");
            }
            return !ended;
        }
        let now = world.now();
        world.change::<GpuJob>(&key(), |job| {
            let phase = if job.is_unwanted() { Phase::Cancelled } else { Phase::Completed };
            let completion_time = Some(Time(now));
            job.status = Some(GpuJobStatus { phase, cleaned: true, completion_time, ..old });
        });
        true
    })
}

fn simulate(world: World) -> Simulation {
    Simulation::new(world).with(Jobs).with_actor(program())
}

#[test]
fn a_job_gets_a_pod_of_its_own_with_rights_of_its_own() {
    check_convergence(
        || simulate(world(&["pi"], json!({}))),
        |simulation| {
            let world = &simulation.world;
            assert_eq!(status(world).phase, Phase::Completed);
            let pod = world.get::<Pod>(&pod_key()).unwrap();
            let spec = serde_json::to_value(pod.spec).unwrap();
            assert_eq!(spec["serviceAccountName"], "matmul-submit");
            let secrets: Vec<&Value> =
                spec["volumes"].as_array().unwrap().iter().filter(|v| !v["secret"].is_null()).collect();
            assert_eq!(secrets.len(), 1);
            assert_eq!(secrets[0]["secret"]["secretName"], "key");
            let created = world.log.iter().filter(|line| line.starts_with("create pods")).count();
            assert_eq!(created, 1, "{:?}", world.log);
            assert_eq!(world.list::<ServiceAccount>().len(), 1);
            assert_eq!(world.list::<RoleBinding>().len(), 1);
            let rules = world.list::<Role>()[0].rules.clone().unwrap();
            let reads_secrets =
                rules.iter().any(|rule| rule.resources.iter().flatten().any(|r| r == "secrets" || r == "*"));
            assert!(!reads_secrets, "{rules:?}");
        },
    );
}

#[test]
fn a_deleted_job_stays_until_nothing_is_left() {
    let mut world = world(&["pi"], json!({}));
    world.change::<GpuJob>(&key(), |job| {
        job.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        let phase = Phase::Running;
        job.status = Some(GpuJobStatus { phase, cluster: Some("pi".to_owned()), ..GpuJobStatus::default() });
    });
    world.delete::<GpuJob>(&key());
    let mut waiting = Simulation::new(world.copy()).with(Jobs);
    waiting.settle().unwrap();
    assert!(waiting.world.get::<GpuJob>(&key()).is_some(), "nobody has cleaned up");
    assert!(waiting.world.get::<Pod>(&pod_key()).is_some(), "somebody is to");
    let mut cleaned = simulate(world);
    cleaned.settle().unwrap();
    assert!(cleaned.world.get::<GpuJob>(&key()).is_none());
}

#[test]
fn a_job_whose_cluster_is_gone_or_that_is_abandoned_can_go() {
    for (clusters, note) in [(&[][..], None), (&["pi"][..], Some(ABANDON))] {
        let mut world = world(clusters, json!({}));
        world.change::<GpuJob>(&key(), |job| {
            job.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
            job.metadata.annotations = note.map(|note| [(note.to_owned(), String::new())].into());
            let phase = Phase::Running;
            job.status =
                Some(GpuJobStatus { phase, cluster: Some("pi".to_owned()), ..GpuJobStatus::default() });
        });
        world.delete::<GpuJob>(&key());
        let mut simulation = Simulation::new(world).with(Jobs);
        simulation.settle().unwrap();
        assert!(simulation.world.get::<GpuJob>(&key()).is_none(), "{clusters:?}");
    }
}

#[test]
fn the_cluster_is_named_or_the_only_one() {
    let told = |clusters: &[&str], spec: Value| {
        let mut simulation = Simulation::new(world(clusters, spec)).with(Jobs);
        simulation.settle().unwrap();
        let pods = simulation.world.list::<Pod>().len();
        (pods, status(&simulation.world).message.unwrap_or_default())
    };
    assert_eq!(told(&["pi"], json!({})), (1, String::new()));
    assert_eq!(told(&["pi", "tau"], json!({"cluster": "tau"})), (1, String::new()));
    assert!(told(&[], json!({})).1.contains("there is no SlurmCluster"));
    assert!(told(&["pi", "tau"], json!({})).1.contains("pi, tau"));
    assert!(told(&["pi"], json!({"cluster": "tau"})).1.contains("no SlurmCluster tau"));
}

#[test]
fn a_lost_pod_is_replaced_and_a_finished_job_expires() {
    let mut simulation = Simulation::new(world(&["pi"], json!({"ttlSecondsAfterFinished": 60}))).with(Jobs);
    simulation.settle().unwrap();
    let first = simulation.world.get::<Pod>(&pod_key()).unwrap();
    set_pod_phase(&mut simulation.world, &pod_key(), "Failed");
    simulation.settle().unwrap();
    simulation.world.erase::<Pod>(&pod_key());
    simulation.settle().unwrap();
    let second = simulation.world.get::<Pod>(&pod_key()).unwrap();
    assert_ne!(first.metadata.uid, second.metadata.uid);
    let mut simulation = Simulation::new(simulation.world.copy()).with(Jobs).with_actor(program());
    simulation.settle().unwrap();
    assert!(simulation.world.get::<GpuJob>(&key()).is_none(), "{:?}", simulation.world.log);
}

#[test]
fn a_cluster_is_looked_at_once_per_change() {
    let mut world = World::default();
    world.insert(&cluster("pi"));
    let mut simulation = Simulation::new(world).with(Probes);
    simulation.settle().unwrap();
    let pod = simulation.world.get::<Pod>(&Key::new("ns", "pi-probe")).unwrap();
    assert_eq!(pod.spec.unwrap().restart_policy.as_deref(), Some("Never"));
}
