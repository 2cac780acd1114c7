//! The cases of a real node, each a test of its own on the shared cluster.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;

use super::space::Space;
use crate::harness::cluster::{Cluster, block_on};

const LONGEST_CASE: Duration = Duration::from_secs(420);

/// Names of functions `async fn(Space)`, by the module that they are in. `on` says which cluster they get.
macro_rules! cases {
    ($on:path => $($module:ident: $($case:ident),+ $(,)?);+ $(;)?) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                $on(|cluster| super::in_a_space(cluster, stringify!($case), crate::node::$module::$case));
            })+
        })+
    };
}

cases! { crate::harness::cluster::on_the_shared_cluster =>
    accounts: mounted_credentials, opting_out_of_credentials, root_certificates, discovery_of_the_issuer;
    commands: logs, following_logs, logs_in_messages, exec, a_terminal, attach, port_forward, copy, debug, describe;
    kubectl_entries: update_demo, served_by_a_replica_set, exposed_and_described, guestbook;
    own_program: same_words, own_screens, own_terminals, own_colours;
    containers: shared_network_and_volumes, shared_processes, host_namespaces, init_containers_in_order,
        init_containers_of_a_lasting_pod,
        a_failing_init_container, sidecars, environment, names_and_dns, guarded_ports;
    resources: limits_in_cgroups, out_of_memory, too_many_files_in_memory, resize_in_place,
        resize_of_many_containers;
    runtime_classes: runtime_classes;
    lifecycle: crash_loop, restart_policies, deadline, termination_message, hooks_and_grace, forced_termination, liveness,
        readiness, readiness_with_a_delay, slow_start, grpc;
    volumes: empty_dirs, host_paths, files_from_objects, files_follow_changes, parts_of_volumes,
        service_account_tokens, optional_objects, bound_claims, trust_bundles, many_trust_bundles;
    pod_certificates: certificates_of_pods, mutual_tls_of_pods;
    storage: local_volumes, static_volumes, volumes_of_other_forms, volumes_of_a_stateful_set,
        claims_that_cannot_be_served, copies_and_metrics;
    csi: volumes_of_a_driver, other_volumes_of_a_driver, snapshots_of_a_driver, attributes_of_volumes,
        volumes_of_a_running_pod;
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
}

/// What keeps somebody out does so every time: these are never tried again.
mod guards {
    use super::in_a_space;

    cases! { crate::harness::cluster::on_the_shared_cluster =>
        security: users_and_groups, strict_groups, privileges, root_is_refused, sysctls,
            seccomp_profiles, unsupported_security;
        csi: other_calls_are_refused;
        volumes: secrets_in_memory;
    }
}

/// What the others would notice has a cluster of its own.
mod alone {
    use super::{Cluster, in_a_space};

    fn run(test: impl FnOnce(std::sync::Arc<Cluster>) + Send + 'static) {
        Cluster::builder().run(test);
    }

    cases! { super::run =>
        kubelet: cordon;
        dashboard: logs_and_shells_in_a_browser;
    }
}

/// A case that is over leaves the machine to the others; what a failed one made stays to be looked at.
fn in_a_space<Case: Future<Output = ()>>(
    cluster: std::sync::Arc<Cluster>,
    name: &str,
    case: impl FnOnce(Space) -> Case,
) {
    // What a first try left is in its way otherwise.
    let attempt = std::env::var("NEXTEST_ATTEMPT").ok().filter(|attempt| attempt != "1");
    let name = attempt.map_or(name.to_owned(), |attempt| format!("{name}_{attempt}"));
    block_on(async {
        let space = Space::new(cluster, &name).await;
        let namespaces = kube::Api::<Namespace>::all(space.client.clone());
        let namespace = space.name.clone();
        tokio::time::timeout(LONGEST_CASE, case(space)).await.expect("the case does not end");
        let deleted = namespaces.delete(&namespace, &kube::api::DeleteParams::default()).await;
        // One case deletes its own.
        assert!(deleted.is_ok() || namespaces.get_opt(&namespace).await.unwrap().is_none(), "{deleted:?}");
    });
}
