//! The network of two nodes, each with its own containerd and agent: pods, Services, names, host names and paths, and
//! what faults do to them. Needs root, containerd, nft and kubectl.
//!
//! One case after another in one lab: to start it is what takes time. `CASES=names` runs those whose names
//! contain the word.

mod api_server;
mod conflicts;
mod dns;
mod dual_stack;
mod faults;
mod forwarding;
mod load;
mod lookups;
mod names;
mod peers;
mod place;
mod pods;
mod policies;
mod service_types;
mod services;
mod updates;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use world::World;

type Case = fn(&mut World);

const CASES: &[(&str, Case)] = &[
    ("pods_reach_pods", pods::pods_reach_pods),
    ("addresses_stay", pods::addresses_stay),
    ("nodes_come_and_go", peers::nodes_come_and_go),
    ("everybody_reaches_a_service", services::everybody_reaches_a_service),
    ("nobody_there_is_refused_at_once", services::nobody_there_is_refused_at_once),
    ("policies_keep_traffic_on_the_node", services::policies_keep_traffic_on_the_node),
    ("balancers_and_external_addresses", services::balancers_and_external_addresses),
    ("clients_stay_or_take_turns", services::clients_stay_or_take_turns),
    ("endpoints_come_and_go", services::endpoints_come_and_go),
    ("endpoints_follow_pods", service_types::endpoints_follow_pods),
    ("endpoints_by_hand", service_types::endpoints_by_hand),
    ("endpoints_come_soon", service_types::endpoints_come_soon),
    ("one_port_two_protocols", service_types::one_port_two_protocols),
    ("a_service_changes_its_type", service_types::a_service_changes_its_type),
    ("the_api_server_is_a_service", api_server::the_api_server_is_a_service),
    ("the_api_server_is_a_way_in", api_server::the_api_server_is_a_way_in),
    ("host_ports", api_server::host_ports),
    ("names", names::names),
    ("hosts_and_paths", forwarding::hosts_and_paths),
    ("what_cannot_work_says_so", conflicts::what_cannot_work_says_so),
    ("ports_of_nodes_that_are_taken", conflicts::ports_of_nodes_that_are_taken),
    ("network_policies", policies::network_policies),
    ("rolling_update", updates::rolling_update),
    ("killed_agents", faults::killed_agents),
    ("nobody_answers", faults::nobody_answers),
    ("a_cut_node", faults::a_cut_node),
    ("a_dead_agent_is_not_waited_for", faults::a_dead_agent_is_not_waited_for),
    ("a_node_on_another_link", peers::a_node_on_another_link),
    ("pods_reach_pods_through_a_tunnel", pods::pods_reach_pods_through_a_tunnel),
];

#[test]
fn the_network_of_two_nodes() {
    let wanted = std::env::var("CASES").unwrap_or_default();
    let begun = Instant::now();
    let mut world = World::start();
    services::make(&mut world);
    eprintln!("start: {:?}", begun.elapsed());
    let mut failed = Vec::new();
    for (name, case) in CASES {
        if wanted.split(',').any(|part| name.contains(part)) {
            let begun = Instant::now();
            // One that fails does not keep the others from being tried.
            match catch_unwind(AssertUnwindSafe(|| case(&mut world))) {
                Ok(()) => eprintln!("{name}: {:?}", begun.elapsed()),
                Err(_) => failed.push(*name),
            }
        }
    }
    assert_eq!(failed, [""; 0], "cases that failed");
    world.lab.run(&["down"]);
    assert_eq!(world.lab.traces(), [""; 0], "the lab left something behind");
}
