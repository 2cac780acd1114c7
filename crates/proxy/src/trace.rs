//! W3C trace context: a request that belongs to no trace yet begins one, so that what it causes can be put together.
//! A trace that a client has begun is passed on as it is.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub const TRACEPARENT: &str = "traceparent";

/// A trace and a span of its own, sampled. Names are drawn from a keyed hash of a counter: nobody can tell the next.
pub fn new() -> String {
    static KEYS: OnceLock<[RandomState; 3]> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let keys = KEYS.get_or_init(Default::default);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let [high, low, span] = [0, 1, 2].map(|at: usize| keys[at].hash_one(count));
    // All zeros would be no name.
    format!("00-{high:016x}{:016x}-{:016x}-01", low | 1, span | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_of_the_form_and_differ() {
        let made = [new(), new()];
        for trace in &made {
            let parts: Vec<&str> = trace.split('-').collect();
            let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
            assert_eq!(lengths, [2, 32, 16, 2], "{trace}");
            assert!(parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit())), "{trace}");
        }
        assert_ne!(made[0][3..35], made[1][3..35]);
    }
}
