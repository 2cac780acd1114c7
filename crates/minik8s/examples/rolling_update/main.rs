//! Rolling updates of four replicas on two nodes under constant load, until 50,000 requests were made: how many of
//! them failed. Needs root; `MINIK8S` names the program.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the tests use the rest of their modules")]

#[path = "../../tests/e2e/harness/lab.rs"]
mod lab;
#[path = "../../tests/e2e/network/load.rs"]
mod load;
#[path = "../../tests/e2e/network/place.rs"]
mod place;
#[path = "../../tests/e2e/harness/ranges.rs"]
mod ranges;
#[path = "../../tests/e2e/network/updates.rs"]
mod updates;
#[path = "../../tests/e2e/network/world.rs"]
mod world;

/// Where the tests have it.
mod harness {
    pub(crate) use crate::lab;
}

use std::time::Instant;

use world::World;

const REQUESTS: u64 = 50_000;

fn main() {
    let world = World::start();
    let begun = Instant::now();
    let (requests, failed) = updates::under_load(&world, REQUESTS);
    let rate = requests as f64 / begun.elapsed().as_secs_f64();
    let word = if failed.is_empty() { "ok" } else { "short" };
    println!(
        "rolling updates of 4 replicas under {rate:.0} requests/s: {} of {requests} failed, target 0   {word}",
        failed.len()
    );
    for problem in failed.iter().take(10) {
        println!("  {problem}");
    }
}
