//! A PriorityLevelConfiguration: how many of the server's seats its requests have, and how many of them may wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderValue;
use k8s_openapi::api::flowcontrol::v1 as api;

use super::fair_queue::Bounds;
use super::uid;

#[derive(Debug)]
pub struct PriorityLevel {
    pub uid: HeaderValue,
    /// None: its requests need no seat.
    limited: Option<Limited>,
}

#[derive(Debug)]
struct Limited {
    shares: u64,
    lendable_percent: u64,
    borrowing_percent: Option<u64>,
    waiting: usize,
    waiting_per_flow: usize,
}

impl PriorityLevel {
    pub fn new(object: api::PriorityLevelConfiguration) -> Option<(Arc<str>, PriorityLevel)> {
        let spec = object.spec;
        let limited = (spec.type_ == "Limited").then(|| Limited::new(spec.limited.unwrap_or_default()));
        let uid = uid(object.metadata.uid);
        Some((object.metadata.name?.into(), PriorityLevel { uid, limited }))
    }

    pub fn is_exempt(&self) -> bool {
        self.limited.is_none()
    }
}

impl Limited {
    fn new(limited: api::LimitedPriorityLevelConfiguration) -> Limited {
        let number = |value: i32| u64::try_from(value).unwrap_or_default();
        let response = limited.limit_response;
        let queuing = (response.type_ == "Queue").then(|| {
            let queuing = response.queuing.unwrap_or_default();
            let queues = number(queuing.queues.unwrap_or(64)) as usize;
            let length = number(queuing.queue_length_limit.unwrap_or(50)) as usize;
            (
                queues.saturating_mul(length),
                length.saturating_mul(number(queuing.hand_size.unwrap_or(8)) as usize),
            )
        });
        // Flows are told apart exactly; none is dealt a hand of queues that it shares with others. The bounds are those
        // that the hands would give.
        let (waiting, waiting_per_flow) = queuing.unwrap_or_default();
        Limited {
            shares: number(limited.nominal_concurrency_shares.unwrap_or(30)),
            lendable_percent: number(limited.lendable_percent.unwrap_or_default()).min(100),
            borrowing_percent: limited.borrowing_limit_percent.map(number),
            waiting,
            waiting_per_flow,
        }
    }
}

/// The seats of all levels by their shares, rounded up, so that a level with any share has a seat.
pub fn bounds(levels: &BTreeMap<Arc<str>, PriorityLevel>, seats: usize) -> BTreeMap<Arc<str>, Bounds> {
    let limited = || levels.iter().filter_map(|(name, level)| Some((name, level.limited.as_ref()?)));
    let shares: u64 = limited().map(|(_, level)| level.shares).sum();
    let part = |whole: usize, percent: u64| (whole as u64 * percent / 100) as usize;
    let bounds = |level: &Limited| {
        let own = (seats as u64 * level.shares).div_ceil(shares.max(1)) as usize;
        Bounds {
            seats: own,
            lendable: part(own, level.lendable_percent),
            borrowable: level.borrowing_percent.map_or(usize::MAX, |percent| part(own, percent)),
            waiting: level.waiting,
            waiting_per_flow: level.waiting_per_flow,
        }
    };
    limited().map(|(name, level)| (name.clone(), bounds(level))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn level(name: &str, spec: Value) -> (Arc<str>, PriorityLevel) {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        PriorityLevel::new(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn seats_are_shared_by_shares_and_rounded_up() {
        let queue = json!({"type": "Queue", "queuing": {"queues": 4, "handSize": 2, "queueLengthLimit": 10}});
        let levels = BTreeMap::from([
            level("all", json!({"type": "Exempt"})),
            level(
                "high",
                json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 20, "lendablePercent": 50,
                "borrowingLimitPercent": 25, "limitResponse": queue}}),
            ),
            level(
                "low",
                json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 10,
                "limitResponse": {"type": "Reject"}}}),
            ),
        ]);
        assert!(levels["all"].is_exempt() && !levels["low"].is_exempt());
        let bounds = bounds(&levels, 100);
        assert_eq!(bounds.len(), 2);
        let high = Bounds { seats: 67, lendable: 33, borrowable: 16, waiting: 40, waiting_per_flow: 20 };
        assert_eq!(bounds["high"], high);
        let low = Bounds { seats: 34, lendable: 0, borrowable: usize::MAX, waiting: 0, waiting_per_flow: 0 };
        assert_eq!(bounds["low"], low);
    }

    #[test]
    fn levels_without_shares_divide_nothing_by_nothing() {
        let none = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 0}});
        let levels = BTreeMap::from([level("none", none)]);
        assert_eq!(bounds(&levels, 100)["none"].seats, 0);
    }
}
