//! Behaviour recorded on AWS, where the environment variable ASL_CASES names the folder that holds it as data; without it
//! these tests are reported as ignored. Each
//! file prints how many cases pass, by tier, and fails below its floor; ONLY=text runs the cases whose id has it, and
//! shows what differs.

#![allow(clippy::unwrap_used)]

mod behave;
mod compare;
mod executions;
mod simulator;
mod single_states;
mod validation;

use serde_json::Value;

pub fn read(name: &str) -> Vec<Value> {
    let folder = std::env::var("ASL_CASES").expect("ASL_CASES names the folder of recorded cases");
    let text = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let only = std::env::var("ONLY").unwrap_or_default();
    cases.into_iter().filter(|case| case["id"].as_str().unwrap().contains(&only)).collect()
}

/// Counts passes, tells failures.
pub struct Tally {
    name: String,
    passed: usize,
    all: usize,
}

impl Tally {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), passed: 0, all: 0 }
    }

    pub fn count(&mut self, id: &str, outcome: Result<(), String>) -> bool {
        self.all += 1;
        match outcome {
            Ok(()) => {
                self.passed += 1;
                true
            }
            Err(reason) => {
                println!("{}: {id}: {reason}", self.name);
                false
            }
        }
    }

    fn share(&self) -> f64 {
        100.0 * self.passed as f64 / self.all.max(1) as f64
    }

    /// Tells all, then fails if one is below its floor.
    pub fn end_all(all: &[Self], floors: &[f64]) {
        for tally in all {
            println!("{}: {} of {} pass ({:.2} %)", tally.name, tally.passed, tally.all, tally.share());
        }
        if std::env::var("ONLY").is_ok() {
            return;
        }
        for (tally, floor) in all.iter().zip(floors) {
            assert!(tally.share() >= *floor, "{}: {:.2} % is below {floor} %", tally.name, tally.share());
        }
    }
}
