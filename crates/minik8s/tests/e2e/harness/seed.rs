//! What decides the order of faults: another number each run, unless somebody wants a run again.

use std::time::{SystemTime, UNIX_EPOCH};

/// What the variable says, or `SEED`, or the clock. It is printed, also when all goes well (`.config/nextest.toml`).
pub fn seed(variable: &str) -> u64 {
    let given = [variable, "SEED"].into_iter().filter_map(|name| std::env::var(name).ok());
    let seed = match given.map(|text| text.trim().to_owned()).find(|text| !text.is_empty()) {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("SEED={text}: a seed is a whole number")),
        None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
    };
    println!("seed {seed}: SEED={seed} repeats the faults");
    seed
}
