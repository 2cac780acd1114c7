//! What every write but an apply does to `managedFields`.

use jiff::Timestamp;
use minik8s_schema::Schema;
use serde_json::{Map, Value};

use super::{Entries, Entry, Manager, Operation, managed_fields, strip_untracked};
use crate::fieldset::FieldSet;
use crate::typed::{Comparison, Containers, compare, fields_of, reconcile};

/// Writes `new`'s managedFields for a create (`old` is `None`), update or patch.
///
/// The manager gets the fields that it added or changed; everyone else loses those and the removed ones.
/// Whatever the client sent as managedFields counts only as upstream has it: `[]` and `[{}]` clear the
/// list, a list that can be read replaces the old one, anything else leaves the old one. An existing
/// object without managedFields stays without, until the first apply. A write that changes nothing leaves
/// `managedFields` exactly as they were.
///
/// Call it with the defaulted object: who creates an object owns its defaults.
pub fn track_update(
    old: Option<&Value>,
    new: &mut Value,
    schema: &Schema,
    manager: &Manager,
    now: Timestamp,
) {
    let sent = super::take_managed_fields(new);
    let Some(old) = old else {
        let mut entries = Entries::default();
        entries.0.extend(creator(new, schema, manager, now));
        super::set_managed_fields(new, entries.encode());
        return;
    };

    let stored = managed_fields(old);
    let mut change = compare(schema, old, new);
    for set in change.sets_mut() {
        strip_untracked(set);
        manager.strip_resets(set);
    }
    if change.is_empty() && (sent.is_none() || sent.as_ref() == stored) {
        super::set_managed_fields(new, sent.or_else(|| stored.cloned()));
        return;
    }
    let mut entries = previous(stored, sent.as_ref(), manager);
    if entries.0.is_empty() {
        return;
    }
    entries.0.iter_mut().for_each(|entry| reconcile(Some(schema), &mut entry.fields));
    entries.lose(&change);
    let Comparison { changed, .. } = change;
    if !changed.is_empty() {
        entries.add(manager.entry(Operation::Update, changed, now));
    }
    entries.cap();
    super::set_managed_fields(new, entries.encode());
}

/// The entry of whoever created an object, if there is anything to own.
pub(crate) fn creator(object: &Value, schema: &Schema, manager: &Manager, now: Timestamp) -> Option<Entry> {
    let mut fields = fields_of(Some(schema), object, Containers::Listed, 0);
    strip_untracked(&mut fields);
    manager.strip_resets(&mut fields);
    (!fields.is_empty()).then(|| manager.entry(Operation::Update, fields, now))
}

/// The entries to start from: what the client sent, or what is stored.
fn previous(stored: Option<&Value>, sent: Option<&Value>, manager: &Manager) -> Entries {
    let stored = || Entries::decode(stored).unwrap_or_default();
    match sent {
        // A subresource cannot change managedFields by hand.
        _ if manager.subresource.is_some() => stored(),
        Some(Value::Array(list)) if is_reset_request(list) => Entries::default(),
        sent => match Entries::decode(sent) {
            Ok(entries) if !entries.0.is_empty() => entries,
            _ => stored(),
        },
    }
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
        }
    }
}
