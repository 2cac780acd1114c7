//! Weights of subsets as weights of their endpoints, and the order in which weighted endpoints take turns. Pure.

use std::net::SocketAddr;
use std::sync::Arc;

/// Turns after which an order repeats itself, at most. Weights that need more are rounded.
const LONGEST: u64 = 4096;

/// The weight of each endpoint, given weight and number of endpoints of each subset: the smallest whole numbers. Weights
/// [1, 2] over subsets of [2, 1] pods are [1, 4]: 1 for each of the first two pods, 4 for the third.
pub fn of_endpoints(subsets: &[(u64, u64)]) -> Vec<u64> {
    let counted = || subsets.iter().filter(|(weight, size)| *weight > 0 && *size > 0);
    let common =
        counted().fold(1_u64, |common, (_, size)| match common.checked_mul(*size / gcd(common, *size)) {
            Some(product) if product <= 1 << 32 => product,
            // So many pods of so odd a number that rounding does not matter.
            _ => 1 << 32,
        });
    let of = |(weight, size): &(u64, u64)| match size {
        0 => 0,
        size => weight.saturating_mul(common) / size,
    };
    let weights: Vec<u64> = subsets.iter().map(of).collect();
    let divisor = weights.iter().fold(0, |divisor, weight| gcd(divisor, *weight)).max(1);
    weights.into_iter().map(|weight| weight / divisor).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The order in which endpoints take turns: each as often as its weight says, spread evenly (smooth weighted round
/// robin). Endpoints of weight 0 have no turn.
pub fn turns(endpoints: &[(SocketAddr, u64)]) -> Arc<[SocketAddr]> {
    let sum: u64 = endpoints.iter().fold(0, |sum, (_, weight)| sum.saturating_add(*weight));
    let scaled = |weight: u64| match weight {
        0 => 0,
        weight if sum <= LONGEST => weight,
        weight => {
            let scaled = u128::from(weight) * u128::from(LONGEST) / u128::from(sum);
            u64::try_from(scaled).unwrap_or(LONGEST).max(1)
        }
    };
    let mut states: Vec<(SocketAddr, i64, i64)> = endpoints
        .iter()
        .map(|(address, weight)| (*address, i64::try_from(scaled(*weight)).unwrap_or(1), 0))
        .filter(|(_, weight, _)| *weight > 0)
        .collect();
    let total: i64 = states.iter().map(|(_, weight, _)| weight).sum();
    let mut order = Vec::new();
    for _ in 0..total {
        states.iter_mut().for_each(|(_, weight, current)| *current += *weight);
        let Some(next) = states.iter_mut().max_by_key(|(_, _, current)| *current) else { break };
        next.2 -= total;
        order.push(next.0);
    }
    order.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weights_of_subsets_become_weights_of_endpoints() {
        let check = |subsets: &[(u64, u64)], expected: &[u64]| {
            assert_eq!(of_endpoints(subsets), expected, "{subsets:?}");
        };
        check(&[(1, 2), (2, 1)], &[1, 4]);
        check(&[(90, 1), (10, 1)], &[9, 1]);
        check(&[(90, 9), (10, 1)], &[1, 1]);
        check(&[(50, 3), (50, 2)], &[2, 3]);
        check(&[(5, 3)], &[1]);
        check(&[(0, 2), (7, 2)], &[0, 1]);
        check(&[(9, 0), (1, 4)], &[0, 1]);
        check(&[(0, 1), (0, 1)], &[0, 0]);
        check(&[], &[]);
    }

    fn address(number: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, u8::try_from(number).unwrap()], 80))
    }

    #[test]
    fn turns_are_spread() {
        let names = |weights: &[u64]| -> String {
            let endpoints: Vec<_> = weights.iter().enumerate().map(|(n, w)| (address(n), *w)).collect();
            let letter = |turn: &SocketAddr| {
                let SocketAddr::V4(v4) = turn else { return '?' };
                char::from(b'a' + v4.ip().octets()[3])
            };
            turns(&endpoints).iter().map(letter).collect()
        };
        let order = names(&[1, 1, 4]);
        assert_eq!((order.matches('c').count(), order.len()), (4, 6));
        assert!(!order.contains("ccc"), "{order}");
        assert_eq!(names(&[9, 1]).len(), 10);
        assert_eq!(names(&[9, 1]).matches('b').count(), 1);
        assert_eq!(names(&[0, 3]), "bbb");
        assert_eq!(names(&[]), "");
        assert_eq!(names(&[0]), "");
    }

    proptest! {
        /// Whatever the weights, everybody with a weight has a turn, and shares are right within rounding.
        #[test]
        fn shares_are_as_wanted(weights in prop::collection::vec(0_u64..100_000, 1..6)) {
            let endpoints: Vec<_> = weights.iter().enumerate().map(|(n, w)| (address(n), *w)).collect();
            let sum: u64 = weights.iter().sum();
            let order = turns(&endpoints);
            let mut counts: BTreeMap<SocketAddr, usize> = BTreeMap::new();
            order.iter().for_each(|turn| *counts.entry(*turn).or_default() += 1);
            for (endpoint, weight) in &endpoints {
                let count = counts.get(endpoint).copied().unwrap_or(0);
                prop_assert_eq!(count > 0, *weight > 0);
                if sum > 0 {
                    let (want, have) = (*weight as f64 / sum as f64, count as f64 / order.len() as f64);
                    prop_assert!((want - have).abs() < 0.005, "{} {}", want, have);
                }
            }
        }
    }
}
