//! What every write but an apply does to `managedFields`.

use jiff::Timestamp;
use minik8s_schema::Schema;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::entry::Source;
use super::{Entries, Entry, Manager, Operation, strip_untracked};
use crate::fieldset::FieldSet;
use crate::typed::{Containers, compare, fields_of};

/// The managedFields of a new object. Call it with the defaulted object: who creates an object owns its defaults.
pub fn track_create(
    object: &Value,
    schema: &Schema,
    manager: &Manager,
    now: Timestamp,
) -> Option<Box<RawValue>> {
    Entries(creator(object, schema, manager, now).into_iter().collect()).write()
}

/// The managedFields that an object has after a write.
pub enum Tracked {
    /// What they were.
    Unchanged,
    Changed(Option<Box<RawValue>>),
}

/// The managedFields after an update or patch that made `new` of `old`, neither of which need hold them: `stored`
/// are those of `old`, `sent` those that the client wants.
///
/// The manager gets the fields that it added or changed; everyone else loses those and the removed ones.
/// Whatever the client sent as managedFields counts only as upstream has it: `[]` and `[{}]` clear the
/// list, a list that can be read replaces the old one, anything else leaves the old one. An existing
/// object without managedFields stays without, until the first apply. A write that changes nothing leaves
/// `managedFields` exactly as they were.
pub fn track_update(
    (old, stored): (&Value, Option<&RawValue>),
    (new, sent): (&Value, Option<Value>),
    schema: &Schema,
    manager: &Manager,
    now: Timestamp,
) -> Tracked {
    let mut change = compare(schema, old, new);
    for set in change.sets_mut() {
        strip_untracked(set);
        manager.strip_resets(set);
    }
    let mut writer = manager.entry(Operation::Update, FieldSet::default(), now);
    let mut entries = match replacement(sent, stored, manager) {
        Some(entries) => entries,
        None if change.is_empty() => return Tracked::Unchanged,
        None => stored.and_then(|stored| Entries::read_for(stored, &change, &writer)).unwrap_or_default(),
    };
    if !entries.0.is_empty() {
        entries.reconcile(schema);
        entries.lose(&change);
        writer.fields = change.changed;
        if !writer.is_empty() {
            entries.add(writer);
        }
        entries.cap();
    }
    let fields = entries.write();
    // What the client sent may yet come to the same.
    match fields.as_deref().map(RawValue::get) == stored.map(RawValue::get) {
        true => Tracked::Unchanged,
        false => Tracked::Changed(fields),
    }
}

/// The entries that the client put in place of the stored ones, if it did.
fn replacement(sent: Option<Value>, stored: Option<&RawValue>, manager: &Manager) -> Option<Entries> {
    // A subresource cannot change managedFields by hand.
    if manager.subresource.is_some() || sent.is_none() || sent == stored.and_then(parsed) {
        return None;
    }
    match sent {
        Some(Value::Array(list)) if is_reset_request(&list) => Some(Entries::default()),
        sent => Entries::decode(sent.as_ref()).ok().filter(|entries| !entries.0.is_empty()),
    }
}

/// The entry of whoever created an object, if there is anything to own.
pub(crate) fn creator(object: &Value, schema: &Schema, manager: &Manager, now: Timestamp) -> Option<Entry> {
    let mut fields = fields_of(Some(schema), object, Containers::Listed, 0);
    strip_untracked(&mut fields);
    manager.strip_resets(&mut fields);
    (!fields.is_empty()).then(|| manager.entry(Operation::Update, fields, now))
}

pub(super) fn parsed(fields: &RawValue) -> Option<Value> {
    serde_json::from_str(fields.get()).ok()
}

fn is_reset_request(list: &[Value]) -> bool {
    match list {
        [] => true,
        [only] => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

impl Manager {
    pub(crate) fn entry(&self, operation: Operation, fields: FieldSet, now: Timestamp) -> Entry {
        Entry {
            manager: self.name.clone(),
            operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.clone(),
            // Upstream's times have no fractions, and neither would they survive being read again.
            time: Some(Timestamp::from_second(now.as_second()).unwrap_or(now)),
            fields,
            source: Source::default(),
        }
    }
}
