//! Rules and routes in a real kernel: machines are network namespaces. Only root can make them: without root the tests
//! are reported as ignored, and as root one that cannot make them fails.

#![allow(clippy::unwrap_used)]

mod ipv6;
mod lab;
mod pod_network;
mod policies;
mod recovery;
mod services;

use libtest_mimic::{Arguments, Trial};

const TESTS: &[(&str, fn())] = &[
    ("services::everybody_reaches_a_service", services::everybody_reaches_a_service),
    ("services::loopback_is_not_reached_from_outside", services::loopback_is_not_reached_from_outside),
    ("services::spoofed_source_of_a_pod_is_dropped", services::spoofed_source_of_a_pod_is_dropped),
    ("services::no_endpoints_no_waiting", services::no_endpoints_no_waiting),
    ("services::how_endpoints_are_picked", services::how_endpoints_are_picked),
    ("services::a_new_start_finds_what_is_there", services::a_new_start_finds_what_is_there),
    ("services::a_client_stays_with_its_endpoint", services::a_client_stays_with_its_endpoint),
    (
        "services::a_load_balancer_is_the_node_and_guards_its_sources",
        services::a_load_balancer_is_the_node_and_guards_its_sources,
    ),
    ("services::external_addresses_lead_to_the_service", services::external_addresses_lead_to_the_service),
    (
        "services::traffic_stays_on_the_node_where_the_policy_says_so",
        services::traffic_stays_on_the_node_where_the_policy_says_so,
    ),
    (
        "services::datagrams_leave_an_endpoint_that_is_gone",
        services::datagrams_leave_an_endpoint_that_is_gone,
    ),
    (
        "services::the_source_is_kept_where_the_policy_says_so",
        services::the_source_is_kept_where_the_policy_says_so,
    ),
    ("services::no_connection_fails_while_rules_change", services::no_connection_fails_while_rules_change),
    ("policies::a_policy_guards_pods_of_one_node", policies::a_policy_guards_pods_of_one_node),
    ("policies::what_pods_send_is_guarded_too", policies::what_pods_send_is_guarded_too),
    ("policies::services_and_the_resolver", policies::services_and_the_resolver),
    ("policies::a_change_ends_what_it_denies", policies::a_change_ends_what_it_denies),
    ("policies::sctp_passes_services_and_policies", policies::sctp_passes_services_and_policies),
    ("policies::no_way_round_through_ipv6", policies::no_way_round_through_ipv6),
    ("policies::a_new_start_finds_what_is_there", policies::a_new_start_finds_what_is_there),
    ("ipv6::everybody_reaches_a_service", ipv6::everybody_reaches_a_service),
    ("ipv6::kernel_lists_rules_as_they_were_written", ipv6::kernel_lists_rules_as_they_were_written),
    ("ipv6::policy_guards_pods", ipv6::policy_guards_pods),
    ("ipv6::spoofed_packets_of_a_pod_are_dropped", ipv6::spoofed_packets_of_a_pod_are_dropped),
    ("ipv6::pods_reach_pods_of_other_nodes", ipv6::pods_reach_pods_of_other_nodes),
    ("pod_network::pods_reach_pods_of_all_nodes", pod_network::pods_reach_pods_of_all_nodes),
    ("pod_network::links_follow_the_nodes", pod_network::links_follow_the_nodes),
    (
        "pod_network::only_what_leaves_the_cluster_is_masqueraded",
        pod_network::only_what_leaves_the_cluster_is_masqueraded,
    ),
    (
        "recovery::guard_of_ports_that_is_started_again_serves_who_waits",
        recovery::guard_of_ports_that_is_started_again_serves_who_waits,
    ),
    (
        "recovery::network_that_cannot_listen_for_names_ends_to_be_started_again",
        recovery::network_that_cannot_listen_for_names_ends_to_be_started_again,
    ),
];

/// What is not in the list would never run.
fn every_test_is_listed() {
    for (module, text) in [
        ("ipv6", include_str!("ipv6.rs")),
        ("services", include_str!("services.rs")),
        ("policies", include_str!("policies.rs")),
        ("pod_network", include_str!("pod_network.rs")),
        ("recovery", include_str!("recovery.rs")),
    ] {
        assert!(!text.contains("#[test]"), "{module}.rs: list its tests in main.rs, as `pub fn`");
        for line in text.lines().filter_map(|line| line.strip_prefix("pub fn ")) {
            let name = format!("{module}::{}", line.split('(').next().unwrap());
            assert!(TESTS.iter().any(|(listed, _)| *listed == name), "{name} is not in TESTS");
        }
    }
}

fn main() {
    let is_root = nix::unistd::geteuid().is_root();
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(*name, run).with_ignored_flag(!is_root)
    };
    let listed = Trial::test("every_test_is_listed", || {
        every_test_is_listed();
        Ok(())
    });
    let trials = TESTS.iter().map(trial).chain([listed]).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
