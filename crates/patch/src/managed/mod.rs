//! `metadata.managedFields`: which manager owns which field.
//!
//! Server-side apply writes it for appliers ([`crate::apply`]); every other write goes through
//! [`track_create`] or [`track_update`], which gives the writer what it changed and takes it from everyone else. An entry that
//! was written in another version of the kind is kept as it is: its paths are not converted.

mod cap;
mod entries;
mod entry;
mod times;
mod untracked;
mod update;

#[cfg(test)]
mod tests;

pub use entry::{Entry, EntryError, Operation};
pub use times::keep_times;
pub use update::{Tracked, track_create, track_update};

pub(crate) use entries::Entries;
pub(crate) use untracked::strip_untracked;
pub(crate) use update::creator;

use serde_json::Value;

/// Who writes, by which door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manager {
    /// See [`manager_name`].
    pub name: String,
    /// The version the request is written in: `v1`, `apps/v1`.
    pub api_version: String,
    /// `status`, `scale`, ...
    pub subresource: Option<String>,
    /// What this door does not write, whatever the request says.
    pub resets: Resets,
}

/// The fields that a write leaves as they were, so that nobody gains or loses them by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resets {
    Nothing,
    /// The main resource of a kind that has a status subresource.
    Status,
    /// The status subresource. Metadata is tracked: some kinds let a status write change annotations.
    AllButStatus,
}

impl Manager {
    /// A write to the object itself. `has_status`: the kind has a status subresource.
    pub fn main(name: &str, api_version: &str, has_status: bool) -> Self {
        let resets = if has_status { Resets::Status } else { Resets::Nothing };
        Manager { name: name.to_owned(), api_version: api_version.to_owned(), subresource: None, resets }
    }

    /// A write to a subresource.
    pub fn subresource(name: &str, api_version: &str, subresource: &str) -> Self {
        let resets = if subresource == "status" { Resets::AllButStatus } else { Resets::Nothing };
        Manager {
            name: name.to_owned(),
            api_version: api_version.to_owned(),
            subresource: Some(subresource.to_owned()),
            resets,
        }
    }
}

/// The name of a manager: the request's `fieldManager`, else what the user agent says before its first
/// `/`, else `unknown`.
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    const MAX_BYTES: usize = 128;
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let program = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in program.chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > MAX_BYTES {
            break;
        }
        name.push(c);
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// The raw `metadata.managedFields`.
pub(crate) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Takes `metadata.managedFields` out of an object.
pub fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.shift_remove("managedFields")
}

/// A copy without managedFields, which are often half of the object.
pub(crate) fn clone_unmanaged(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copied = fields.iter().map(|(name, field)| match field {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        field => (name.clone(), field.clone()),
    });
    copied.collect()
}

/// Writes `metadata.managedFields`; `None` leaves it out. An object without metadata stays as it is.
pub fn set_managed_fields(object: &mut Value, fields: Option<Value>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match fields {
        Some(fields) => drop(metadata.insert("managedFields".to_owned(), fields)),
        None => drop(metadata.shift_remove("managedFields")),
    }
}

/// Tracks a create (`old` is `None`) or a change of whole objects.
#[cfg(test)]
pub(crate) fn track(
    old: Option<&Value>,
    new: &mut Value,
    schema: &minik8s_schema::Schema,
    manager: &Manager,
    now: jiff::Timestamp,
) {
    let sent = take_managed_fields(new);
    let parse = |fields: Option<Box<serde_json::value::RawValue>>| fields.as_deref().and_then(update::parsed);
    let fields = match old {
        None => parse(track_create(new, schema, manager, now)),
        Some(old) => {
            let stored = managed_fields(old).map(|fields| serde_json::value::to_raw_value(fields).unwrap());
            match track_update((old, stored.as_deref()), (new, sent), schema, manager, now) {
                Tracked::Unchanged => parse(stored),
                Tracked::Changed(fields) => parse(fields),
            }
        }
    };
    set_managed_fields(new, fields);
}
