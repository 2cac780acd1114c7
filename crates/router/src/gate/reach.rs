//! Which instances can be reached. One that says that it ends gets nothing more. One to which no connection can be made is
//! left alone for a while, ever longer, and is then tried with one request: its node's network may have been cut off for a
//! moment. Whoever calls here waits; nothing here does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::Backoff;

use super::Gate;

const PAUSES: Backoff = Backoff::millis(1_000, 30_000);

/// How an instance was reached last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reach {
    /// It said that it takes no more requests.
    is_leaving: bool,
    /// Connections in a row that could not be made.
    failures: u32,
    /// It is left alone since the last of them.
    is_resting: bool,
    /// A request is on its way that shows whether it is there again.
    is_tried: bool,
}

impl Reach {
    /// Whether requests may go there.
    pub fn is_open(&self) -> bool {
        !self.is_leaving && !self.is_resting
    }

    /// Whether another one may, beside those that run: of those that are to show whether it is there again one does.
    pub fn takes_another(&self) -> bool {
        self.is_open() && !self.is_tried
    }

    /// The next request shows whether it is there again.
    pub fn is_doubtful(&self) -> bool {
        self.failures > 0
    }

    /// A request goes there.
    pub fn take(&mut self) {
        self.is_tried = self.is_doubtful();
    }

    /// A request is over. If it has shown nothing, the next one does.
    pub fn give_back(&mut self) {
        self.is_tried = false;
    }
}

impl Gate {
    /// It has been reached.
    pub fn mark_ready(self: &Arc<Self>, address: SocketAddr) {
        let mut state = self.state.lock();
        let Some(instance) = state.instances.get_mut(&address) else { return };
        instance.ready = true;
        if instance.reach.is_doubtful() {
            instance.reach = Reach { is_leaving: instance.reach.is_leaving, ..Reach::default() };
            self.hand_out(&mut state);
        }
    }

    /// It said that it ends.
    pub fn mark_leaving(&self, address: SocketAddr) {
        if let Some(instance) = self.state.lock().instances.get_mut(&address) {
            instance.reach.is_leaving = true;
        }
    }

    /// No request goes there until [`Gate::try_again`], which is due after this time; `None` if somebody else sees to it.
    pub fn mark_unreachable(&self, address: SocketAddr) -> Option<Duration> {
        let mut state = self.state.lock();
        let reach = &mut state.instances.get_mut(&address)?.reach;
        if std::mem::replace(&mut reach.is_resting, true) {
            return None;
        }
        reach.failures = reach.failures.saturating_add(1);
        Some(PAUSES.after(reach.failures))
    }

    pub fn try_again(self: &Arc<Self>, address: SocketAddr) {
        let mut state = self.state.lock();
        let Some(instance) = state.instances.get_mut(&address) else { return };
        instance.reach.is_resting = false;
        self.hand_out(&mut state);
    }
}
