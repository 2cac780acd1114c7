//! How many requests there are at once, and how many there must be room for: what a router wants of the control plane.
//! Pure: time is given.
//!
//! The first request wants an instance at once. From then on the number is looked at now and then: a request that is over
//! before anybody looks needs no instance more. What was wanted is wanted for a while longer, and one instance until
//! nothing has happened for the function's idle time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct Demand {
    /// Requests that run or wait.
    requests: u32,
    last: Option<Instant>,
    /// What was seen, newest last; each entry counts until something larger or its age takes it away.
    seen: VecDeque<(Instant, u32)>,
    /// What the control plane was told last, and when.
    told: (u32, Option<Instant>),
}

impl Demand {
    pub fn begin(&mut self, now: Instant) {
        self.requests += 1;
        self.last = Some(now);
    }

    pub fn end(&mut self, now: Instant) {
        self.requests = self.requests.saturating_sub(1);
        self.last = Some(now);
    }

    /// Whether there are requests where the control plane knows of none.
    pub fn is_news(&self) -> bool {
        self.requests > 0 && self.told.0 == 0
    }

    /// Nothing to look at until the next request.
    pub fn is_quiet(&self) -> bool {
        self.requests == 0 && self.told.0 == 0 && self.seen.is_empty()
    }

    /// What is wanted now.
    pub fn look(&mut self, now: Instant, memory: Duration, idle: Duration) -> u32 {
        if self.requests == 0 && self.last.is_none_or(|last| now.duration_since(last) >= idle) {
            self.seen.clear();
            return 0;
        }
        while self.seen.back().is_some_and(|(_, number)| *number <= self.requests) {
            self.seen.pop_back();
        }
        if self.requests > 0 {
            self.seen.push_back((now, self.requests));
        }
        while self.seen.front().is_some_and(|(at, _)| now.duration_since(*at) > memory) {
            self.seen.pop_front();
        }
        self.seen.front().map_or(1, |(_, number)| *number)
    }

    /// What to tell, if it is time to.
    pub fn due(&mut self, wanted: u32, now: Instant, repeat: Duration) -> Option<u32> {
        let (told, at) = self.told;
        let stale = wanted > 0 && at.is_none_or(|at| now.duration_since(at) >= repeat);
        (wanted != told || stale).then_some(wanted)
    }

    pub fn told(&mut self, wanted: u32, now: Instant) {
        self.told = (wanted, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Duration = Duration::from_secs(30);
    const IDLE: Duration = Duration::from_secs(60);

    #[test]
    fn demand_rises_at_once_and_falls_slowly() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut demand = Demand::default();
        assert!(demand.is_quiet());
        for _ in 0..4 {
            demand.begin(at(0));
        }
        assert!(demand.is_news());
        assert_eq!(demand.look(at(0), MEMORY, IDLE), 4);
        demand.told(4, at(0));
        assert!(!demand.is_news());
        for _ in 0..3 {
            demand.end(at(1));
        }
        assert_eq!(demand.look(at(2), MEMORY, IDLE), 4, "the peak is remembered");
        assert_eq!(demand.look(at(29), MEMORY, IDLE), 4);
        assert_eq!(demand.look(at(31), MEMORY, IDLE), 1, "one still runs");
        demand.end(at(40));
        assert_eq!(demand.look(at(62), MEMORY, IDLE), 1);
        assert_eq!(demand.look(at(99), MEMORY, IDLE), 1, "idle time is not over");
        assert_eq!(demand.look(at(101), MEMORY, IDLE), 0);
        assert_eq!(demand.due(0, at(101), MEMORY), Some(0));
        demand.told(0, at(101));
        assert!(demand.is_quiet());
    }

    #[test]
    fn idle_time_counts_also_where_it_is_shorter_than_the_memory() {
        let start = Instant::now();
        let mut demand = Demand::default();
        demand.begin(start);
        demand.end(start);
        let short = Duration::from_secs(5);
        assert_eq!(demand.look(start, MEMORY, short), 1);
        assert_eq!(demand.look(start + Duration::from_secs(4), MEMORY, short), 1);
        assert_eq!(demand.look(start + short, MEMORY, short), 0);
    }

    #[test]
    fn demand_is_repeated_only_while_there_is_some() {
        let start = Instant::now();
        let mut demand = Demand::default();
        demand.told(2, start);
        assert_eq!(demand.due(2, start + Duration::from_secs(5), MEMORY), None);
        assert_eq!(demand.due(2, start + MEMORY, MEMORY), Some(2));
        demand.told(0, start);
        assert_eq!(demand.due(0, start + 10 * MEMORY, MEMORY), None);
    }
}
