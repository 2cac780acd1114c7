//! What a store should do, in the simplest way that can be written down: a map per revision and a list of
//! events.

use std::collections::BTreeMap;

use minik8s_store::{Change, Commit, Conflict, Entry, Event, Op, Outcome, Page, Range, Revision};

pub struct Model {
    snapshots: BTreeMap<Revision, BTreeMap<String, Entry>>,
    events: Vec<Event>,
}

impl Model {
    pub fn new(revision: Revision) -> Self {
        Model { snapshots: BTreeMap::from([(revision, BTreeMap::new())]), events: Vec::new() }
    }

    pub fn revision(&self) -> Revision {
        *self.snapshots.last_key_value().expect("there is a first snapshot").0
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.at(self.revision()).get(key)
    }

    pub fn commit(&mut self, commit: &Commit) -> Outcome {
        for condition in &commit.conditions {
            let found = self.get(&condition.key).cloned();
            if found.as_ref().map_or(0, |entry| entry.revision) != condition.revision {
                return Outcome::Conflict(Conflict { key: condition.key.clone(), found });
            }
        }
        let revision = self.revision() + 1;
        let mut next = self.at(self.revision()).clone();
        let mut events = Vec::new();
        for op in &commit.ops {
            let previous = self.get(op.key()).cloned();
            events.retain(|event: &Event| &*event.key != op.key());
            let change = match op {
                Op::Put { key, value } => {
                    let entry = Entry { key: key.as_str().into(), value: value.clone(), revision };
                    next.insert(key.clone(), entry);
                    Change::Put(value.clone())
                }
                Op::Delete { key } => {
                    next.remove(key);
                    if previous.is_none() {
                        continue;
                    }
                    Change::Delete
                }
            };
            events.push(Event { revision, key: op.key().into(), change, previous });
        }
        if !events.is_empty() {
            self.snapshots.insert(revision, next);
            self.events.append(&mut events);
        }
        Outcome::Committed(self.revision())
    }

    pub fn page(&self, range: &Range) -> Page {
        let revision = range.revision.unwrap_or(self.revision());
        let mut entries: Vec<Entry> = self.at(revision).values().cloned().collect();
        entries.retain(|entry| entry.key.starts_with(&range.prefix));
        entries.retain(|entry| range.after.as_deref().is_none_or(|after| &*entry.key > after));
        let all = entries.len();
        entries.truncate(if range.limit == 0 { usize::MAX } else { range.limit });
        let remaining = (all - entries.len()) as u64;
        Page { entries, revision, more: remaining > 0, remaining: Some(remaining) }
    }

    /// In the order of revisions; within one, by key, since there the order means nothing.
    pub fn events(&self, prefix: &str, after: Revision) -> Vec<Event> {
        let wanted = |event: &&Event| event.revision > after && event.key.starts_with(prefix);
        in_order(self.events.iter().filter(wanted).cloned().collect())
    }

    fn at(&self, revision: Revision) -> &BTreeMap<String, Entry> {
        self.snapshots.range(..=revision).next_back().expect("not before the first snapshot").1
    }
}

pub fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    assert!(events.is_sorted_by_key(|event| event.revision), "out of order: {events:?}");
    events.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    events
}
