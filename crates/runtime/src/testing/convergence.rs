//! The property of every controller.

use super::Simulation;

/// Runs that are tried with random order and cut plans.
const SEEDS: u64 = 12;
/// Crash points that are tried, one after each action of the undisturbed run.
const MOST_CRASHES: usize = 32;

/// From the state that `build` makes, three kinds of runs must settle in a state that `expect` accepts, in
/// which planning again finds nothing to do: undisturbed; crashed after any prefix of the actions; in random
/// orders with requests that fail.
pub fn check_convergence(build: impl Fn() -> Simulation, expect: impl Fn(&Simulation)) {
    let run = |simulation: &mut Simulation, what: &str| {
        if let Err(problem) = simulation.settle() {
            panic!("{what}: {problem}");
        }
        expect(simulation);
    };
    run(&mut build(), "undisturbed");
    for crash in 0..MOST_CRASHES {
        let mut simulation = build();
        simulation.crash_after(crash);
        run(&mut simulation, &format!("crash after {crash} actions"));
        if simulation.is_fuse_left() {
            break;
        }
    }
    for seed in 0..SEEDS {
        let mut simulation = build();
        simulation.shuffle(seed);
        run(&mut simulation, &format!("random order, seed {seed}"));
    }
}
