//! How well one way served: how long answers took, and how long none came.

use std::fmt;
use std::time::{Duration, Instant};

use super::expected_failures::Evidence;
use super::paths::Paths;
use super::traffic::{Answered, Failure, Report, Way};

/// One lost packet of a new connection is a second, two are three, three are seven, and longer they are not lost.
pub const LATE_ANSWER: Duration = Duration::from_secs(8);
/// A node's grace, and the time in which its pods are no endpoints any more.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(6);
/// Answers that are quicker need no reason.
const QUICK: Duration = Duration::from_secs(1);

/// Of one way.
pub struct Latency {
    pub answered: usize,
    pub p50: Duration,
    pub p99: Duration,
    pub longest_silence: Duration,
}

impl Latency {
    /// Answers and silences that a dead pod or the node's own absence explains are left out.
    pub fn of(
        way: Way,
        report: &Report,
        evidence: &Evidence,
        paths: &Paths,
        time: (Instant, Instant),
    ) -> Latency {
        let is_explained = |answer: &&Answered| {
            let Answered { begun, ended, port } = **answer;
            let late = Failure { begun, ended, port, why: "late".to_owned() };
            ended - begun > QUICK
                && evidence.expected(&late, &paths.from(way.node, port, begun, ended)).is_ok()
        };
        let answers = report.answers.iter().filter(|answer| !is_explained(answer));
        let mut took: Vec<Duration> = answers.map(|answer| answer.ended - answer.begun).collect();
        took.sort_unstable();
        Latency {
            answered: report.answers.len(),
            p50: percentile(&took, 50),
            p99: percentile(&took, 99),
            longest_silence: evidence.longest_silence(&report.answers, time.0, time.1),
        }
    }

    /// What is worse than allowed.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.answered == 0 {
            faults.push("never answered".to_owned());
        }
        for (what, found, bound) in [
            ("99 of 100 answers came within", self.p99, LATE_ANSWER),
            ("no answer for", self.longest_silence, LONGEST_SILENCE),
        ] {
            if found > bound {
                faults.push(format!("{what} {found:.1?}, more than {bound:?}"));
            }
        }
        faults
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |time: Duration| time.as_millis();
        let seconds = self.longest_silence.as_secs_f64();
        write!(
            f,
            "{:>5} {:>4} ms {:>5} ms {seconds:>4.1} s",
            self.answered,
            milliseconds(self.p50),
            milliseconds(self.p99)
        )
    }
}

/// In which time that many of a hundred came.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_slowest() {
        let hundred: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&hundred, 50).as_millis(), 50);
        assert_eq!(percentile(&hundred, 99).as_millis(), 99);
        assert_eq!(percentile(&hundred[..3], 99).as_millis(), 3);
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }

    #[test]
    fn late_answers_and_silences_are_faults() {
        let latency = |p99, longest_silence, answered| Latency {
            answered,
            p50: Duration::ZERO,
            p99: Duration::from_secs(p99),
            longest_silence: Duration::from_secs(longest_silence),
        };
        assert_eq!(latency(8, 6, 1).faults().len(), 0);
        assert_eq!(latency(9, 6, 1).faults().len(), 1);
        assert_eq!(latency(8, 19, 1).faults().len(), 1);
        assert_eq!(latency(9, 7, 0).faults().len(), 3);
    }
}
