//! Random values that a replay makes again: a generator whose whole state is a number kept with the run.

use serde::{Deserialize, Serialize};

/// `new java.util.Random(seed).nextDouble()`, which is what AWS' `$random(seed)` gives.
pub fn java_double(seed: i64) -> f64 {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = (seed as u64 ^ MULTIPLIER) & MASK;
    let mut bits = |count: u32| {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        state >> (48 - count)
    };
    let high = bits(26) << 27;
    (high + bits(27)) as f64 / (1u64 << 53) as f64
}

/// SplitMix64. Good enough for jitter and identifiers that need not be secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// At least 0, less than 1.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// At least `start`, less than `end`.
    pub fn between(&mut self, start: i64, end: i64) -> i64 {
        let span = end.wrapping_sub(start) as u64;
        if span == 0 { start } else { start.wrapping_add((self.draw() % span) as i64) }
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.draw(), self.draw());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }
}
