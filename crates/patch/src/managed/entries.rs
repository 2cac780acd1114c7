//! All entries of an object.

use minik8s_schema::Schema;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::cap::MAX_UPDATERS;
use super::entry::Source;
use super::{Entry, EntryError};
use crate::fieldset::FieldSet;
use crate::typed::{Comparison, reconcile};

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

    /// Reads `managedFields` as the store holds them: entries that stay as they are will be written as they are.
    /// None if they cannot be read.
    pub fn read(fields: &RawValue) -> Option<Entries> {
        let list: Option<Vec<&RawValue>> = serde_json::from_str(fields.get()).ok()?;
        let list = list.unwrap_or_default();
        if list.len() > MAX_ENTRIES {
            return None;
        }
        let mut entries = Entries::default();
        for text in list {
            entries.add(Entry::read(text)?);
        }
        Some(entries)
    }

    /// As [`Entries::read`], for a change by the manager of `writer`: the fields of those who own nothing where the
    /// change is are passed over.
    pub fn read_for(fields: &RawValue, change: &Comparison, writer: &Entry) -> Option<Entries> {
        let Some(root) = change.root() else { return Entries::read(fields) };
        let mark = format!("\"f:{root}\"");
        let list: Vec<&RawValue> = serde_json::from_str(fields.get()).ok()?;
        // More than that may have to be joined.
        if list.len() >= MAX_UPDATERS {
            return Entries::read(fields);
        }
        let read = |text: &&RawValue| match text.get().contains(&mark) {
            false if text.get().contains("\"f:") => Entry::read_head(text),
            _ => Entry::read(text),
        };
        let entries = list.iter().map(read).collect::<Option<Vec<Entry>>>()?;
        let is_one_of_two = |(i, entry): (usize, &Entry)| {
            entry.is_unread()
                && entries.iter().enumerate().any(|(j, other)| i != j && entry.same_manager(other))
        };
        let must_read =
            |(i, entry)| is_one_of_two((i, entry)) || (entry.is_unread() && entry.same_manager(writer));
        if entries.iter().enumerate().any(must_read) {
            return Entries::read(fields);
        }
        Some(Entries(entries))
    }

    /// The list in upstream's order, or nothing when nobody owns anything.
    pub fn encode(mut self) -> Option<Value> {
        self.prepare().then(|| Value::Array(self.0.into_iter().map(Entry::encode).collect()))
    }

    /// As [`Entries::encode`], for the store.
    pub fn write(mut self) -> Option<Box<RawValue>> {
        if !self.prepare() {
            return None;
        }
        // Texts, times and sets of them can always be written.
        to_raw_value(&self.0).ok()
    }

    /// Brings them into order; whether there are any.
    fn prepare(&mut self) -> bool {
        self.0.retain(|entry| !entry.is_empty());
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
        !self.0.is_empty()
    }

    /// Adds an entry; a manager that is there already owns both sets from the later time on.
    pub fn add(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|own| own.same_manager(&entry)) {
            Some(own) => {
                own.fields = own.fields.union(&entry.fields);
                own.time = own.time.max(entry.time);
                own.api_version = entry.api_version;
                own.source = Source::default();
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

    /// Adapts what was recorded to the schema of today.
    pub fn reconcile(&mut self, schema: &Schema) {
        for entry in &mut self.0 {
            if reconcile(Some(schema), &mut entry.fields) {
                entry.source = Source::default();
            }
        }
    }

    /// Takes from everyone what a change touched.
    pub fn lose(&mut self, change: &Comparison) {
        for set in change.sets() {
            for entry in &mut self.0 {
                if entry.fields.subtract(set) {
                    entry.source = Source::default();
                }
            }
        }
        self.0.retain(|entry| !entry.is_empty());
    }
}
