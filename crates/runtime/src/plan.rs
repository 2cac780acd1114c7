//! What a controller wants done.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::{Action, EventRecord, Object};

/// Actions in the order they are carried out, events, and when to look again without being woken.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub events: Vec<EventRecord>,
    pub again_after: Option<Duration>,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.events.is_empty()
    }

    pub fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub fn event(&mut self, event: EventRecord) {
        self.events.push(event);
    }

    /// Looks again at `then`; the earliest of several wins, a time in the past means soon.
    pub fn again_at(&mut self, then: Timestamp, now: Timestamp) {
        let wait = then.duration_since(now).unsigned_abs().max(Duration::from_millis(1));
        let wait = if then <= now { Duration::from_millis(1) } else { wait };
        self.again_after = Some(self.again_after.map_or(wait, |known| known.min(wait)));
    }

    /// Writes the status of `new` if it differs from `old` in any way.
    pub fn status<K: Object>(&mut self, old: &K, new: K) {
        if *old != new {
            self.act(Action::update_status(&new));
        }
    }
}
