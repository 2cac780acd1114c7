//! The shape of a controller.

use std::fmt::Debug;
use std::hash::Hash;

use k8s_openapi::jiff::Timestamp;

use crate::{Caches, Plan, Watches};

/// A control loop without effects. The [`crate::Manager`] runs it.
pub trait Controller: Send + Sync + 'static {
    /// What one round of work is about, mostly a [`crate::Key`].
    type Key: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// All that `plan` looks at.
    type Observed: Send + Sync;

    /// As events and logs name it, e.g. `replicaset-controller`.
    fn name(&self) -> &'static str;

    /// Which kinds wake it, and how their objects lead to keys.
    fn watch(&self, watches: &Watches<Self::Key>);

    /// Reads the caches. None: there is nothing to do for this key (any more).
    fn observe(&self, caches: &Caches, key: &Self::Key) -> Option<Self::Observed>;

    /// Pure: no IO, no clock, no randomness, no logging.
    fn plan(&self, seen: &Self::Observed, now: Timestamp) -> Plan;

    /// Pure: what to write when a plan could not be carried out to its end, for the user to see why.
    fn plan_failure(&self, _seen: &Self::Observed, _error: &str, _now: Timestamp) -> Plan {
        Plan::default()
    }

    /// How many keys are worked on at once.
    fn workers(&self) -> usize {
        8
    }
}
