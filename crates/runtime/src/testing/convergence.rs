//! The property of every controller.

use super::Simulation;

/// Runs that are tried with random order and cut plans.
const SEEDS: u64 = 8;
/// Crash points that are tried, spread over the actions of the undisturbed run.
const CRASHES: usize = 16;

/// From the state that `build` makes, three kinds of runs must settle in a state that `expect` accepts, in
/// which planning again finds nothing to do: undisturbed; crashed after some prefix of the actions; in random
/// orders with requests that fail.
pub fn check_convergence(build: impl Fn() -> Simulation, expect: impl Fn(&Simulation)) {
    let run = |simulation: &mut Simulation, what: &str| {
        if let Err(problem) = simulation.settle() {
            panic!("{what}: {problem}");
        }
        expect(simulation);
    };
    let mut undisturbed = build();
    run(&mut undisturbed, "undisturbed");
    let actions = undisturbed.world.log.len();
    for crash in (0..actions).step_by(actions.div_ceil(CRASHES).max(1)) {
        let mut simulation = build();
        simulation.crash_after(crash);
        run(&mut simulation, &format!("crash after {crash} of {actions} actions"));
    }
    for seed in 0..SEEDS {
        let mut simulation = build();
        simulation.shuffle(seed);
        run(&mut simulation, &format!("random order, seed {seed}"));
    }
}
