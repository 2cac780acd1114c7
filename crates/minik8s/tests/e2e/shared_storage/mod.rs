//! The class `shared` on three machines with the file system's real servers: set up, used from several nodes at once,
//! its servers killed, machines lost, its master recovered, taken away. Needs root, containerd, kubectl, FUSE and
//! MooseFS (`scripts/setup`).
//!
//! What takes seconds, one case after another in one lab: to start it is what takes time. Where a machine is lost, or one
//! fault follows another, each test has a lab of its own.

mod loss;
mod steps;
mod use_of_it;
mod world;

use world::World;

type Case = (&'static str, fn(&World));

const ENABLED: Case = ("enabled", use_of_it::enabled);
const CASES: &[Case] = &[
    ("mistakes_are_told", use_of_it::mistakes_are_told),
    ENABLED,
    ("many_nodes_write_at_once", use_of_it::many_nodes_write_at_once),
    ("quota_is_the_size_and_grows", use_of_it::quota_is_the_size_and_grows),
    ("snapshots_and_clones", use_of_it::snapshots_and_clones),
    ("pods_cannot_reach_the_servers", use_of_it::pods_cannot_reach_the_servers),
    ("killed_servers_fail_no_write", loss::killed_servers_fail_no_write),
    ("mount_that_died_comes_back", loss::mount_that_died_comes_back),
    ("disabled", use_of_it::disabled),
];

#[test]
fn shared_storage_on_three_machines() {
    run(CASES);
}

#[test]
fn database_moves_when_its_node_is_lost() {
    run(&[ENABLED, ("database", loss::database_moves_when_its_node_is_lost)]);
}

#[test]
fn master_is_recovered_from_its_log() {
    run(&[ENABLED, ("recovered", loss::master_is_recovered_from_its_log)]);
}

#[test]
fn killed_processes_orphan_no_volume() {
    run(&[ENABLED, ("orphan", steps::killed_processes_orphan_no_volume)]);
}

fn run(cases: &[Case]) {
    let world = World::start();
    for (name, case) in cases {
        let begun = std::time::Instant::now();
        eprintln!("{name}");
        case(&world);
        eprintln!("{name}: {:?}", begun.elapsed());
    }
    world.lab.run(&["down"]);
    assert_eq!(world.lab.traces(), [""; 0], "the lab left something behind");
}
