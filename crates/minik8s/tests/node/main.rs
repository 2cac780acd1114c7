//! A node with real containers: the minik8s binary, containerd and kubectl.
//!
//! Nearly everything happens on one server, in chapters that run side by side, each in a namespace of its
//! own. What kills processes has a server for itself. Both leave nothing behind, or the test fails.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod accounts;
mod cluster;
mod commands;
mod containers;
mod faults;
mod health_service;
mod kubectl_entries;
mod leftovers;
mod lifecycle;
mod matrix;
mod node;
mod outages;
mod own_program;
#[path = "../harness/plain.rs"]
mod plain;
mod pods;
mod pressure;
mod reasons;
mod registry;
mod resources;
mod runtime_classes;
mod scaling;
mod security;
mod space;
#[path = "../harness/verbs.rs"]
#[allow(dead_code, reason = "other tests need the rest of the lists")]
mod verbs;
mod volumes;
#[path = "../harness/words.rs"]
mod words;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cluster::{Cluster, block_on, on_a_cluster, on_a_cluster_apart, on_a_cluster_with};
use space::Space;

/// More only wait for each other.
const AT_ONCE: usize = 10;

type Chapter = fn(Space) -> Pin<Box<dyn Future<Output = ()>>>;

/// Names of functions `async fn(Space)`, with their paths as names.
macro_rules! chapters {
    ($($module:ident: $($chapter:ident),+ $(,)?);+ $(;)?) => {
        &[$($((stringify!($chapter), |space| Box::pin($module::$chapter(space)) as _)),+),+]
    };
}

const CHAPTERS: &[(&str, Chapter)] = chapters! {
    accounts: mounted_credentials, opting_out_of_credentials, root_certificates, discovery_of_the_issuer;
    commands: logs, following_logs, logs_in_messages, exec, a_terminal, attach, port_forward, copy, debug, describe;
    kubectl_entries: update_demo, exposed_and_described, guestbook;
    own_program: same_words, own_screens, own_terminals, own_colours;
    containers: shared_network_and_volumes, shared_processes, host_namespaces, init_containers_in_order,
        init_containers_of_a_lasting_pod,
        a_failing_init_container, sidecars, environment, names_and_dns;
    resources: limits_in_cgroups, out_of_memory, too_many_files_in_memory, resize_in_place,
        resize_of_many_containers;
    runtime_classes: runtime_classes;
    lifecycle: crash_loop, restart_policies, deadline, last_words, hooks_and_grace, an_impatient_end, liveness,
        readiness, readiness_with_a_delay, slow_start, grpc;
    security: users_and_groups, strict_groups, privileges, root_is_refused, sysctls;
    volumes: empty_dirs, host_paths, files_from_objects, files_follow_changes, parts_of_volumes,
        service_account_tokens, optional_objects, bound_claims;
    matrix: files_of_every_mode, objects_that_come_and_go, empty_dirs_of_every_mode, files_about_the_pod,
        parts_of_files, paths_of_variables, commands_and_arguments, hooks_that_ask, a_pods_life, hosts_files;
    registry: pulls, image_volumes;
    pods: generations, statuses_and_collections, many_volumes;
    reasons: missing_images, a_missing_command, missing_objects, missing_volumes;
    node: what_the_node_says, figures, cordon, static_pods, log_rotation;
    scaling: top_agrees_with_cgroups, scaling_on_cpu, scaling_on_own_metrics, pages_for_prometheus;
    leftovers: nothing_remains;
};

#[test]
fn pods_on_a_real_node() {
    on_a_cluster(|cluster| {
        let wanted = std::env::var("CHAPTERS").unwrap_or_default();
        let chapters = CHAPTERS.iter().filter(|(name, _)| wanted.split(',').any(|part| name.contains(part)));
        let chapters: Vec<_> = chapters.collect();
        assert!(!chapters.is_empty(), "no chapter is called like {wanted:?}");
        let failed = side_by_side(&chapters, &cluster);
        assert!(failed.is_empty(), "failed: {failed:?}");
    });
}

/// Runs chapters on a few threads; returns the names of those that failed.
fn side_by_side(chapters: &[&(&'static str, Chapter)], cluster: &Arc<Cluster>) -> Vec<&'static str> {
    let queue = Mutex::new(chapters.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(&&(name, chapter)) = { queue.lock().unwrap().next() } {
                    let (begun, cluster) = (Instant::now(), cluster.clone());
                    let run = move || block_on(async { chapter(Space::new(cluster, name).await).await });
                    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run).unwrap();
                    match thread.join() {
                        Ok(()) => println!("{name}: {:?}", begun.elapsed()),
                        Err(_) => failed.lock().unwrap().push(name),
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
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
fn killed_processes_stop_no_pod() {
    on_a_cluster(|cluster| block_on(faults::killed_processes(cluster)));
}

#[test]
fn outages_lose_no_pod() {
    on_a_cluster_apart(192, |cluster| block_on(outages::outages(cluster)));
}

#[test]
fn a_node_in_need_evicts() {
    on_a_cluster_apart(128, |cluster| block_on(pressure::pressure(cluster)));
}
