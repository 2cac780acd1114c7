//! All entries of an object.

use serde_json::Value;

use super::{Entry, EntryError};
use crate::fieldset::FieldSet;
use crate::typed::Comparison;

/// More than any object gathers; keeps a hostile list from costing the square of its length.
const MAX_ENTRIES: usize = 5_000;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Entries(pub Vec<Entry>);

impl Entries {
    /// Reads `managedFields`; nothing is an empty list. Entries of one manager become one.
    pub fn decode(fields: Option<&Value>) -> Result<Entries, EntryError> {
        let list = match fields {
            None | Some(Value::Null) => return Ok(Entries::default()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(EntryError::NotAList),
        };
        if list.len() > MAX_ENTRIES {
            return Err(EntryError::TooMany(list.len()));
        }
        let mut entries = Entries::default();
        for (index, entry) in list.iter().enumerate() {
            entries.add(Entry::decode(entry, index)?);
        }
        Ok(entries)
    }

    /// The list in upstream's order, or nothing when nobody owns anything.
    pub fn encode(mut self) -> Option<Value> {
        self.0.retain(|entry| !entry.fields.is_empty());
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
        Some(Value::Array(self.0.iter().map(Entry::encode).collect()))
    }

    /// Adds an entry; a manager that is there already owns both sets from the later time on.
    pub fn add(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|own| own.same_manager(&entry)) {
            Some(own) => {
                own.fields = own.fields.union(&entry.fields);
                own.time = own.time.max(entry.time);
                own.api_version = entry.api_version;
            }
            None => self.0.push(entry),
        }
    }

    /// Removes and returns the entry of the same manager.
    pub fn take(&mut self, like: &Entry) -> Option<Entry> {
        let index = self.0.iter().position(|own| own.same_manager(like))?;
        Some(self.0.remove(index))
    }

    /// What all of them own together.
    pub fn union(&self) -> FieldSet {
        self.0.iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields))
    }

    /// Takes from everyone what a change touched.
    pub fn lose(&mut self, change: &Comparison) {
        for set in change.sets() {
            self.0.iter_mut().for_each(|entry| entry.fields.subtract(set));
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }
}
