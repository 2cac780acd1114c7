//! Endpoints that fail again and again get no requests for a while. At most half of them: if most fail, the fault is
//! likely to be elsewhere, and to ask fewer would only hurt the rest.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::mesh;
use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub struct Outlier {
    failures: u32,
    time: Duration,
    state: Mutex<HashMap<SocketAddr, Record>>,
}

#[derive(Debug, Default)]
struct Record {
    /// In a row.
    failures: u32,
    ejected_until: Option<Instant>,
}

impl Outlier {
    /// What was known of endpoints stays known when the rules about them stay.
    pub fn new(wanted: &mesh::Outlier, before: Option<&Arc<Outlier>>) -> Arc<Self> {
        let failures = u32::try_from(wanted.failures).unwrap_or(1).max(1);
        let time = Duration::from_secs(u64::try_from(wanted.eject_seconds).unwrap_or(1).max(1));
        match before.filter(|before| (before.failures, before.time) == (failures, time)) {
            Some(before) => before.clone(),
            None => Arc::new(Outlier { failures, time, state: Mutex::default() }),
        }
    }

    pub fn note(&self, endpoint: SocketAddr, failed: bool) {
        let mut state = self.state.lock();
        if !failed {
            // Most endpoints never fail, and leave nothing behind.
            if !state.is_empty() {
                state.remove(&endpoint);
            }
            return;
        }
        let record = state.entry(endpoint).or_default();
        record.failures += 1;
        if record.failures >= self.failures {
            record.failures = 0;
            record.ejected_until = Some(Instant::now() + self.time);
        }
    }

    /// The turns of those that are not left out.
    pub fn remaining(&self, turns: &Arc<[SocketAddr]>) -> Arc<[SocketAddr]> {
        let state = self.state.lock();
        if state.is_empty() {
            return turns.clone();
        }
        let now = Instant::now();
        let is_out = |one: &SocketAddr| {
            state.get(one).and_then(|record| record.ejected_until).is_some_and(|until| until > now)
        };
        let mut endpoints: Vec<&SocketAddr> = turns.iter().collect();
        endpoints.sort();
        endpoints.dedup();
        let mut out: Vec<SocketAddr> = endpoints.iter().filter(|one| is_out(one)).map(|one| **one).collect();
        out.truncate(endpoints.len() / 2);
        match out.is_empty() {
            true => turns.clone(),
            false => turns.iter().filter(|turn| !out.contains(turn)).copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[tokio::test(start_paused = true)]
    async fn endpoint_that_fails_rests() {
        let wanted = mesh::Outlier { failures: 2, eject_seconds: 30 };
        let outlier = Outlier::new(&wanted, None);
        let turns: Arc<[SocketAddr]> = [address(1), address(2), address(1)].into();
        let ports = || outlier.remaining(&turns).iter().map(SocketAddr::port).collect::<Vec<_>>();
        outlier.note(address(1), true);
        outlier.note(address(1), false);
        outlier.note(address(1), true);
        assert_eq!(ports(), [1, 2, 1], "not two in a row");
        outlier.note(address(1), true);
        assert_eq!(ports(), [2]);
        let kept = Outlier::new(&wanted, Some(&outlier));
        assert_eq!(kept.remaining(&turns).len(), 1, "a new table remembers");
        outlier.note(address(2), true);
        outlier.note(address(2), true);
        assert_eq!(ports().len(), 1, "never more than half");
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(ports(), [1, 2, 1], "and is tried again");
    }
}
