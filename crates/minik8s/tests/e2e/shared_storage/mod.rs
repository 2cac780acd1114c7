//! The class `shared` on three machines with the file system's real servers: set up, used from several nodes at once,
//! its servers killed, machines lost, its master recovered, taken away. Needs root, containerd, kubectl, FUSE and
//! MooseFS (`scripts/setup`).
//!
//! One case after another in one lab: to start it is what takes time. `CASES` chooses some by parts of their names.

mod loss;
mod steps;
mod use_of_it;
mod world;

use world::World;

type Case = (&'static str, fn(&World));

const CASES: &[Case] = &[
    ("mistakes_are_told", use_of_it::mistakes_are_told),
    ("enabled", use_of_it::enabled),
    ("many_nodes_write_at_once", use_of_it::many_nodes_write_at_once),
    ("quota_is_the_size_and_grows", use_of_it::quota_is_the_size_and_grows),
    ("snapshots_and_clones", use_of_it::snapshots_and_clones),
    ("pods_cannot_reach_the_servers", use_of_it::pods_cannot_reach_the_servers),
    ("killed_servers_fail_no_write", loss::killed_servers_fail_no_write),
    ("mount_that_died_comes_back", loss::mount_that_died_comes_back),
    ("disabled", use_of_it::disabled),
];
/// Those that take minutes: a machine has to be called dead, and to come back. They run where `CASES` names them.
const LONG: &[Case] = &[
    ("enabled", use_of_it::enabled),
    ("database_moves_when_its_node_is_lost", loss::database_moves_when_its_node_is_lost),
    ("killed_servers_orphan_no_volume", steps::killed_servers_orphan_no_volume),
    ("master_is_recovered_from_its_log", loss::master_is_recovered_from_its_log),
];

#[test]
fn shared_storage_on_three_machines() {
    let world = World::start();
    let cases: Vec<&Case> = match std::env::var("CASES") {
        Err(_) => CASES.iter().collect(),
        Ok(wanted) => {
            let is_wanted =
                |(name, _): &&Case| *name == "enabled" || wanted.split(',').any(|part| name.contains(part));
            LONG.iter().filter(is_wanted).collect()
        }
    };
    for (name, case) in cases {
        let begun = std::time::Instant::now();
        eprintln!("{name}");
        case(&world);
        eprintln!("{name}: {:?}", begun.elapsed());
    }
    world.lab.run(&["down"]);
    assert_eq!(world.lab.traces(), [""; 0], "the lab left something behind");
}
