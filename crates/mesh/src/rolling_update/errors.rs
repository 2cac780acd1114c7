//! Whether more requests fail than did before. Pure.

use std::collections::BTreeMap;

use minik8s_meta::mesh::{MeshProgressSpec, RequestTotals};

/// Fewer say nothing.
const FEWEST: u64 = 20;
pub const MAX_ERRORS: i32 = 5;

/// Of all nodes, before the update and since it began.
pub fn totals(progress: &BTreeMap<String, MeshProgressSpec>) -> (RequestTotals, RequestTotals) {
    let sum = |of: fn(&MeshProgressSpec) -> RequestTotals| {
        progress.values().map(of).fold(RequestTotals::default(), |sum, one| RequestTotals {
            total: sum.total.saturating_add(one.total),
            failed: sum.failed.saturating_add(one.failed),
        })
    };
    (sum(|one| one.before), sum(|one| one.since))
}

/// Why the update must go back, if it must.
pub fn rise(before: RequestTotals, since: RequestTotals, max_errors: i32) -> Option<String> {
    if since.total < FEWEST {
        return None;
    }
    let percent = |one: RequestTotals| match one.total {
        0 => 0.0,
        total => one.failed as f64 * 100.0 / total as f64,
    };
    let (was, is) = (percent(before), percent(since));
    (is > was + f64::from(max_errors)).then(|| {
        format!(
            "{} of {} requests since it began have failed ({is:.1}%, {was:.1}% before): it goes back",
            since.failed, since.total
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_rise_are_found() {
        let check = |before: (u64, u64), since: (u64, u64), max: i32, expected: bool| {
            let totals = |(total, failed)| RequestTotals { total, failed };
            let found = rise(totals(before), totals(since), max);
            assert_eq!(found.is_some(), expected, "{before:?} {since:?} {found:?}");
        };
        check((1000, 0), (100, 6), 5, true);
        check((1000, 0), (100, 5), 5, false);
        check((1000, 0), (19, 19), 5, false);
        check((0, 0), (20, 2), 5, true);
        // Who failed before may fail as often.
        check((100, 50), (100, 54), 5, false);
        check((100, 50), (100, 56), 5, true);
        check((100, 0), (100, 1), 0, true);
        check((100, 0), (100, 100), 100, false);
    }
}
