//! Counts a probe's outcomes until they are enough for a verdict. Pure.

use k8s_openapi::api::core::v1 as core;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    success_threshold: u32,
    failure_threshold: u32,
    last: Option<bool>,
    run: u32,
}

impl Tally {
    pub fn new(probe: &core::Probe) -> Self {
        let at_least_one = |n: Option<i32>, default: i32| n.unwrap_or(default).max(1) as u32;
        Tally {
            success_threshold: at_least_one(probe.success_threshold, 1),
            failure_threshold: at_least_one(probe.failure_threshold, 3),
            last: None,
            run: 0,
        }
    }

    /// The verdict, once enough outcomes in a row agree.
    pub fn count(&mut self, success: bool) -> Option<bool> {
        self.run = if self.last == Some(success) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(success);
        let needed = if success { self.success_threshold } else { self.failure_threshold };
        (self.run >= needed).then_some(success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcomes and verdicts: `+` success, `-` failure, `.` none yet.
    fn check(success: i32, failure: i32, outcomes: &str, want: &str) {
        let probe = core::Probe {
            success_threshold: Some(success),
            failure_threshold: Some(failure),
            ..Default::default()
        };
        let mut tally = Tally::new(&probe);
        let verdict = |outcome: char| match tally.count(outcome == '+') {
            Some(true) => '+',
            Some(false) => '-',
            None => '.',
        };
        assert_eq!(outcomes.chars().map(verdict).collect::<String>(), want, "{success} {failure} {outcomes}");
    }

    #[test]
    fn thresholds() {
        check(1, 3, "+", "+");
        check(1, 3, "---", "..-");
        check(1, 3, "--+--", "..+..");
        check(2, 1, "+-++", ".-.+");
        check(0, 0, "-+", "-+");
    }
}
