//! Decides what a group of commits does, one after the other, before anything is written. Pure.
//!
//! Each commit sees what the ones before it in the group did, and gets its own revision.

use std::collections::HashMap;
use std::sync::Arc;

use super::newest::Newest;
use crate::{Change, Commit, Conflict, Entry, Event, Op, Outcome, Revision};

pub(super) struct Batch<'a> {
    newest: &'a Newest,
    changed: HashMap<Arc<str>, Option<Entry>>,
    planned: Planned,
}

/// What is to be written, and then to be seen.
pub(super) struct Planned {
    pub(super) events: Vec<Arc<Event>>,
    /// The store's revision after the events.
    pub(super) revision: Revision,
}

impl<'a> Batch<'a> {
    pub(super) fn new(newest: &'a Newest) -> Self {
        let planned = Planned { events: Vec::new(), revision: newest.revision() };
        Batch { newest, changed: HashMap::new(), planned }
    }

    pub(super) fn finish(self) -> Planned {
        self.planned
    }

    pub(super) fn add(&mut self, commit: Commit) -> Outcome {
        for condition in &commit.conditions {
            let found = self.get(&condition.key);
            if found.as_ref().map_or(0, |entry| entry.revision) != condition.revision {
                return Outcome::Conflict(Conflict { key: condition.key.clone(), found });
            }
        }
        let revision = self.planned.revision + 1;
        let before = self.planned.events.len();
        for op in commit.last_ops() {
            let event = self.event(op, revision);
            self.planned.events.extend(event);
        }
        // As they come from disk.
        self.planned.events[before..].sort_by(|a, b| a.key.cmp(&b.key));
        if self.planned.events.len() > before {
            self.planned.revision = revision;
        }
        Outcome::Committed(self.planned.revision)
    }

    fn get(&self, key: &str) -> Option<Entry> {
        match self.changed.get(key) {
            Some(changed) => changed.clone(),
            None => self.newest.get(key),
        }
    }

    fn event(&mut self, op: Op, revision: Revision) -> Option<Arc<Event>> {
        let (key, value) = match op {
            Op::Put { key, value } => (key, Some(value)),
            Op::Delete { key } => (key, None),
        };
        let previous = self.get(&key);
        if previous.is_none() && value.is_none() {
            return None;
        }
        let key = previous.as_ref().map_or_else(|| Arc::from(key), |previous| previous.key.clone());
        let entry = value.map(|value| Entry { key: key.clone(), value, revision });
        let change = entry.as_ref().map_or(Change::Delete, |entry| Change::Put(entry.value.clone()));
        self.changed.insert(key.clone(), entry);
        Some(Arc::new(Event { revision, key, change, previous }))
    }
}
