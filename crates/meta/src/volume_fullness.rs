//! When a volume counts as full: one rule for the agent that tells it and for the command line that shows it.

const MEBI: u64 = 1 << 20;

/// Whether so little is left that writes of usual sizes fail: less than a hundredth. Of small volumes, less than a mebibyte
/// but never more than a twentieth: a file system keeps some blocks for itself, and a program that writes in large
/// pieces stops before the last one.
pub fn is_full(available: u64, capacity: u64) -> bool {
    available < (capacity / 100).max(MEBI.min(capacity / 20))
}

/// Whether a volume that was full has so much room again that it is news when it is full the next time.
pub fn is_roomy(available: u64, capacity: u64) -> bool {
    available >= capacity / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_is_where_writes_fail() {
        let check = |available: u64, capacity: u64, expected: bool| {
            assert_eq!(is_full(available, capacity), expected, "{available} of {capacity}");
        };
        check(0, 0, false);
        check(419 << 10, 13 * MEBI, true);
        check(MEBI, 13 * MEBI, false);
        check(MEBI - 1, 64 * MEBI, true);
        check(MEBI, 64 * MEBI, false);
        check((1 << 30) - 1, 100 << 30, true);
        check(1 << 30, 100 << 30, false);
        // One that is tiny is not full from the start.
        check(MEBI / 2, MEBI, false);
    }
}
