//! Requests by weight, without chance: after as many as the weights add up to, each has had exactly its share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Longer ones are made coarser.
const LONGEST: u32 = 1000;

#[derive(Debug, Default)]
pub struct Split {
    /// Whose turn is when, spread evenly.
    order: Vec<u16>,
    turn: AtomicUsize,
}

impl Split {
    /// Whoever weighs nothing gets nothing. Of nobody, everything is number 0's.
    pub fn new(weights: &[u32]) -> Self {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let divisor = weights.iter().fold(0, |a, b| greatest_common_divisor(a, *b)).max(1);
        let mut shares: Vec<i64> = weights.iter().map(|weight| i64::from(weight / divisor)).collect();
        if total / u64::from(divisor) > u64::from(LONGEST) {
            let scaled = |weight: &u32| (u64::from(*weight) * u64::from(LONGEST)).div_ceil(total.max(1));
            shares = weights.iter().map(|weight| i64::try_from(scaled(weight)).unwrap_or(i64::MAX)).collect();
        }
        let all: i64 = shares.iter().sum();
        let mut credit = vec![0; shares.len()];
        let mut order = Vec::new();
        for _ in 0..all {
            credit.iter_mut().zip(&shares).for_each(|(credit, share)| *credit += share);
            let best = (0..credit.len()).rev().max_by_key(|number| credit[*number]).unwrap_or_default();
            credit[best] -= all;
            order.push(u16::try_from(best).unwrap_or_default());
        }
        Split { order, turn: AtomicUsize::new(0) }
    }

    pub fn next(&self) -> usize {
        if self.order.len() < 2 {
            return self.order.first().copied().unwrap_or_default().into();
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.order.len();
        self.order[turn].into()
    }
}

/// Where it stands is no part of what it is.
impl PartialEq for Split {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        let check = |weights: &[u32], requests: usize, expected: &[usize]| {
            let split = Split::new(weights);
            let mut found = vec![0; weights.len()];
            (0..requests).for_each(|_| found[split.next()] += 1);
            assert_eq!(found, expected, "{weights:?}");
        };
        check(&[1], 5, &[5]);
        check(&[70, 30, 0], 10, &[7, 3, 0]);
        check(&[90, 10], 10, &[9, 1]);
        check(&[1, 1], 3, &[2, 1]);
        check(&[0, 5], 4, &[0, 4]);
        check(&[1_000_000, 1_000_000], 1000, &[500, 500]);
        check(&[999_999, 1], 1001, &[1000, 1]);
    }

    #[test]
    fn turns_are_spread() {
        let split = Split::new(&[3, 1]);
        let turns: Vec<usize> = (0..8).map(|_| split.next()).collect();
        assert_eq!(turns.windows(2).filter(|pair| pair == &[1, 1]).count(), 0, "{turns:?}");
    }
}
