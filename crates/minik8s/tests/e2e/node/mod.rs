//! A node with real containers: the minik8s binary, containerd and kubectl.
//!
//! Nearly everything happens on one cluster that the tests share, side by side, each in a namespace of its own: a *case* is a
//! function of a [`Space`] and a name in the list below, and a test that `cargo nextest run --workspace -E
//! 'test(/^node::cases::/)'` shows by name. What kills processes has a cluster for itself. None leaves anything behind.

mod accounts;
mod cases;
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
mod odd_objects;
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
#[path = "../../../../apiserver/tests/api/samples.rs"]
#[allow(dead_code, reason = "the API server's own tests ask more")]
mod samples;
mod scaling;
mod security;
mod space;
mod storage;
mod storage_crashes;
mod unfinished_bodies;
mod user_files;
mod volume_snapshots;
mod volumes;

use space::Space;

use crate::harness::cluster::{Cluster, block_on};

/// Where nobody waits long, neither for restarts nor for leftovers to go.
#[test]
fn node_with_short_timeouts() {
    let flags = ["--max-container-restart-period", "1s", "--housekeeping-interval", "1s"];
    Cluster::builder().flags(&flags).run(|cluster| {
        block_on(async {
            let restarts = lifecycle::liveness_again_and_again(Space::new(cluster.clone(), "restarts").await);
            let orphans = leftovers::forgotten_containers(Space::new(cluster.clone(), "orphans").await);
            tokio::join!(restarts, orphans);
        });
    });
}

#[test]
fn user_files_survive_pods_and_purge_behind_a_link() {
    Cluster::builder().linked().run(|cluster| block_on(user_files::survive(cluster)));
}

#[test]
fn killed_processes_stop_no_pod() {
    Cluster::builder().run(|cluster| block_on(faults::killed_processes(cluster)));
}

#[test]
fn hostile_objects_blind_nobody() {
    let calm = ["--eviction-hard", ""];
    Cluster::builder()
        .node_apart(512)
        .flags(&calm)
        .run(|cluster| block_on(hostile::hostile_objects(cluster)));
}

#[test]
fn hostile_bodies_without_end_hold_up_neither_kubectl_nor_node() {
    Cluster::builder().run(|cluster| block_on(unfinished_bodies::unfinished_bodies(cluster)));
}

#[test]
fn outages_lose_no_pod() {
    Cluster::builder().node_apart(192).run(|cluster| block_on(outages::outages(cluster)));
}

#[test]
fn a_node_in_need_evicts() {
    Cluster::builder().node_apart(128).run(|cluster| block_on(pressure::pressure(cluster)));
}

#[test]
fn volumes_of_a_driver_survive_crashes() {
    Cluster::builder().run(|cluster| block_on(csi_crashes::crashes(cluster)));
}

#[test]
fn volumes_survive_crashes() {
    Cluster::builder().run(|cluster| block_on(storage_crashes::crashes(cluster)));
}
