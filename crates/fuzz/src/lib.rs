//! Fuzzing on a stable compiler: inputs that were good once, broken at random, a fixed number of them.
//!
//! Each reader of foreign bytes has a test named `fuzz_*` beside it that calls [`fuzz`] with some good inputs and words
//! that mean something there. `make test` runs a few thousand inputs of each with the same seed; `make fuzz` runs a
//! million with a new one. libFuzzer would be guided by coverage, but needs a nightly compiler and programs of its own.
//!
//! It depends on nothing, and is only ever a dev-dependency.

mod mutator;
mod rng;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

pub use mutator::Mutator;
pub use rng::Rng;

/// Of each target that is quick, unless FUZZ_INPUTS says how many of every one.
const INPUTS: u64 = 4000;
const SEED: u64 = 15;

/// What to begin with: inputs that the target accepts, and words of its language.
#[derive(Clone, Copy)]
pub struct Corpus<'a> {
    pub inputs: &'a [&'a [u8]],
    pub words: &'a [&'a str],
}

/// Calls `check` with many inputs. One that makes it panic is printed together with what brings it back.
///
/// `cost` divides the number of inputs that `make test` tries, for targets that take long for each.
pub fn fuzz(target: &str, cost: u64, corpus: Corpus<'_>, mut check: impl FnMut(&[u8])) {
    let (inputs, seed) = (number("FUZZ_INPUTS", INPUTS / cost.max(1)), number("FUZZ_SEED", SEED));
    let mut mutator = Mutator::new(corpus, seed);
    let begun = Instant::now();
    for input in corpus.inputs {
        check(input);
    }
    for count in 1..=inputs {
        let input = mutator.next_input();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input))) {
            eprintln!(
                "{target}: input {count} of seed {seed} (FUZZ_SEED={seed} FUZZ_INPUTS={count}) is\n{}",
                input.escape_ascii()
            );
            resume_unwind(panic);
        }
    }
    eprintln!("{target}: {inputs} inputs of seed {seed} in {:?}", begun.elapsed());
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_finds_what_one_change_away_breaks() {
        let corpus = Corpus { inputs: &[b"length=3;abc"], words: &["length=", ";"] };
        let found = catch_unwind(|| {
            fuzz("example", 1, corpus, |input| {
                // A reader that believes a length.
                let Some(rest) = input.strip_prefix(b"length=") else { return };
                let Some(end) = rest.iter().position(|byte| *byte == b';') else { return };
                let Ok(length) = String::from_utf8_lossy(&rest[..end]).parse::<usize>() else { return };
                let _ = &rest[end + 1..][..length];
            });
        });
        assert!(found.is_err(), "the fault was not found");
    }

    #[test]
    fn fuzz_with_one_seed_makes_the_same_inputs() {
        let corpus = Corpus { inputs: &[b"a=b", b"{\"a\": [1, 2]}"], words: &["null"] };
        let made = |seed| {
            let mut mutator = Mutator::new(corpus, seed);
            (0..200).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }
}
