//! A node with real containers: the minik8s binary, containerd and kubectl.
//!
//! Nearly everything happens on one server, in cases that run side by side, each in a namespace of its
//! own. What kills processes has a server for itself. Both leave nothing behind, or the test fails.

mod accounts;
mod commands;
mod containers;
mod counted_devices;
mod csi;
mod csi_crashes;
mod csi_driver;
mod dashboard;
#[path = "../../../../kubelet/tests/support/device_plugin.rs"]
#[allow(dead_code, reason = "the kubelet's own test asks more")]
mod device_plugin;
mod dra;
mod dra_driver;
mod faults;
mod health_service;
mod hostile;
mod kubectl_entries;
mod kubelet;
mod leftovers;
mod lifecycle;
mod matrix;
mod outages;
mod own_program;
mod pod_certificates;
mod pods;
mod pressure;
mod reasons;
mod registry;
mod rejections;
mod resources;
mod runtime_classes;
mod scaling;
mod security;
mod space;
mod storage;
mod storage_crashes;
mod user_files;
mod volume_snapshots;
mod volumes;

use space::Space;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::harness::cluster::{
    Cluster, block_on, message, on_a_cluster, on_a_cluster_apart, on_a_cluster_with, on_a_linked_cluster,
};

/// More only wait for each other.
const AT_ONCE: usize = 10;
const LONGEST_CASE: Duration = Duration::from_secs(420);
/// Worth a line of the output, which is for what failed.
const SLOW_CASE: Duration = Duration::from_secs(30);

type Case = fn(Space) -> Pin<Box<dyn Future<Output = ()>>>;

/// Names of functions `async fn(Space)`, with their paths as names.
macro_rules! cases {
    ($($module:ident: $($case:ident),+ $(,)?);+ $(;)?) => {
        &[$($((stringify!($case), |space| Box::pin($module::$case(space)) as _)),+),+]
    };
}

const CASES: &[(&str, Case)] = cases! {
    accounts: mounted_credentials, opting_out_of_credentials, root_certificates, discovery_of_the_issuer;
    commands: logs, following_logs, logs_in_messages, exec, a_terminal, attach, port_forward, copy, debug, describe;
    kubectl_entries: update_demo, exposed_and_described, guestbook;
    own_program: same_words, own_screens, own_terminals, own_colours;
    containers: shared_network_and_volumes, shared_processes, host_namespaces, init_containers_in_order,
        init_containers_of_a_lasting_pod,
        a_failing_init_container, sidecars, environment, names_and_dns, guarded_ports;
    resources: limits_in_cgroups, out_of_memory, too_many_files_in_memory, resize_in_place,
        resize_of_many_containers;
    runtime_classes: runtime_classes;
    lifecycle: crash_loop, restart_policies, deadline, last_words, hooks_and_grace, an_impatient_end, liveness,
        readiness, readiness_with_a_delay, slow_start, grpc;
    volumes: empty_dirs, host_paths, files_from_objects, files_follow_changes, parts_of_volumes,
        service_account_tokens, optional_objects, bound_claims, trust_bundles;
    pod_certificates: certificates_of_pods;
    storage: local_volumes, static_volumes, volumes_of_other_forms, volumes_of_a_stateful_set,
        claims_that_cannot_be_served, copies_and_metrics;
    csi: volumes_of_a_driver, other_volumes_of_a_driver, snapshots_of_a_driver, attributes_of_volumes;
    volume_snapshots: snapshots, snapshots_that_cannot_be_made;
    counted_devices: counted_devices;
    dra: claimed_devices;
    matrix: files_of_every_mode, objects_that_come_and_go, empty_dirs_of_every_mode, files_about_the_pod,
        parts_of_files, paths_of_variables, commands_and_arguments, hooks_that_ask, a_pods_life, hosts_files;
    registry: pulls, image_volumes;
    pods: generations, statuses_and_collections, many_volumes;
    reasons: missing_images, a_missing_command, missing_objects, missing_volumes, a_job_whose_pod_never_started;
    rejections: rejected_pods_come_back, rejected_pods_are_replaced_with_pauses;
    kubelet: what_the_node_says, metrics, static_pods, log_rotation;
    scaling: top_agrees_with_cgroups, scaling_on_cpu, scaling_on_own_metrics, pages_for_prometheus;
    leftovers: nothing_remains;
};

/// What keeps somebody out does so every time: these are never tried again.
const SECURITY: &[(&str, Case)] = cases! {
    security: users_and_groups, strict_groups, privileges, root_is_refused, sysctls,
        seccomp_profiles, unsupported_security;
    volumes: secrets_in_memory;
};

/// What the others would notice: these come after them, one by one.
const ALONE: &[(&str, Case)] = cases! {
    kubelet: cordon;
    dashboard: logs_and_shells_in_a_browser;
};

#[test]
fn pods_on_a_real_node() {
    on_a_cluster(|cluster| {
        let wanted = std::env::var("CASES").unwrap_or_default();
        let chosen = |cases: &'static [(&'static str, Case)]| -> Vec<_> {
            cases.iter().filter(|(name, _)| wanted.split(',').any(|part| name.contains(part))).collect()
        };
        let (cases, alone) = ([chosen(SECURITY), chosen(CASES)].concat(), chosen(ALONE));
        assert!(cases.len() + alone.len() > 0, "no case is called like {wanted:?}");
        let mut failed = side_by_side(AT_ONCE, &cases, &cluster);
        failed.extend(side_by_side(1, &alone, &cluster));
        let failed = once_more(failed, &cluster);
        assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
    });
}

/// As the other tests of the whole program, a case that failed is tried once more, alone. Those that then pass are
/// flaky: `scripts/check-flaky` judges them in the end. Returns what the others said.
fn once_more(failed: Vec<(&'static (&'static str, Case), String)>, cluster: &Arc<Cluster>) -> Vec<String> {
    let (mut broken, mut flaky) = (Vec::new(), String::new());
    for (case, why) in failed {
        let (name, run) = *case;
        if SECURITY.iter().any(|(other, _)| *other == name) {
            broken.push(format!("{name}: {why}"));
            continue;
        }
        let cluster = cluster.clone();
        let again = move || block_on(in_a_space(cluster, format!("{name}_again"), run));
        match std::thread::spawn(again).join() {
            Ok(()) => flaky += &format!("{name}: {why}\n"),
            Err(panic) => broken.push(format!("{name}: {why}\nand again: {}", message(&*panic))),
        }
    }
    if !flaky.is_empty() {
        let report = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("flaky-cases");
        std::fs::write(report, flaky).unwrap();
    }
    broken
}

/// Runs cases on a few threads; returns those that failed, with what they said.
fn side_by_side(
    threads: usize,
    cases: &[&'static (&'static str, Case)],
    cluster: &Arc<Cluster>,
) -> Vec<(&'static (&'static str, Case), String)> {
    let queue = Mutex::new(cases.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&chosen) = { queue.lock().unwrap().next() } {
                    let (name, case) = *chosen;
                    let (begun, cluster) = (Instant::now(), cluster.clone());
                    let run = move || block_on(in_a_space(cluster, name.to_owned(), case));
                    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run).unwrap();
                    let ended = thread.join();
                    let took = begun.elapsed();
                    if let Err(panic) = ended {
                        println!("{name} failed after {took:?}");
                        failed.lock().unwrap().push((chosen, message(&*panic).to_owned()));
                    } else if took > SLOW_CASE {
                        println!("{name}: {took:?}");
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

/// A case that is over leaves the machine to the others; what a failed one made stays to be looked at.
async fn in_a_space(cluster: Arc<Cluster>, name: String, case: Case) {
    let space = Space::new(cluster.clone(), &name).await;
    let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(space.client.clone());
    let namespace = space.name.clone();
    tokio::time::timeout(LONGEST_CASE, case(space)).await.expect("the case does not end");
    let deleted = namespaces.delete(&namespace, &kube::api::DeleteParams::default()).await;
    // One case deletes its own.
    assert!(deleted.is_ok() || namespaces.get_opt(&namespace).await.unwrap().is_none(), "{deleted:?}");
}

/// Where nobody waits long, neither for restarts nor for leftovers to go.
#[test]
fn an_impatient_node() {
    let flags = ["--max-container-restart-period", "1s", "--housekeeping-interval", "1s"];
    on_a_cluster_with(&flags, |cluster| {
        block_on(async {
            let restarts = lifecycle::liveness_again_and_again(Space::new(cluster.clone(), "restarts").await);
            let orphans = leftovers::forgotten_containers(Space::new(cluster.clone(), "orphans").await);
            tokio::join!(restarts, orphans);
        });
    });
}

#[test]
fn user_files_survive_pods_and_purge_behind_a_link() {
    on_a_linked_cluster(|cluster| block_on(user_files::survive(cluster)));
}

#[test]
fn killed_processes_stop_no_pod() {
    on_a_cluster(|cluster| block_on(faults::killed_processes(cluster)));
}

#[test]
fn hostile_objects_blind_nobody() {
    on_a_cluster(|cluster| block_on(hostile::hostile_objects(cluster)));
}

#[test]
fn outages_lose_no_pod() {
    on_a_cluster_apart(192, |cluster| block_on(outages::outages(cluster)));
}

#[test]
fn a_node_in_need_evicts() {
    on_a_cluster_apart(128, |cluster| block_on(pressure::pressure(cluster)));
}

#[test]
fn volumes_of_a_driver_survive_crashes() {
    on_a_cluster(|cluster| block_on(csi_crashes::crashes(cluster)));
}

#[test]
fn volumes_survive_crashes() {
    on_a_cluster(|cluster| block_on(storage_crashes::crashes(cluster)));
}
