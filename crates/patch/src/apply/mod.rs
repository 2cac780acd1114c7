//! Server-side apply.
//!
//! A client sends the fields it cares about. They are merged into the live object; fields that the client
//! applied before and left out now are removed, unless someone else owns them; fields that someone else
//! owns with another value are a conflict, unless the client forces it. Ownership comes from what was
//! applied, never from the merged or defaulted object: defaults belong to nobody.
//!
//! It never validates and never fills in defaults; the server does both with the result.

mod configuration;
mod conflict;
mod last_applied;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use minik8s_schema::Schema;
use serde_json::{Map, Value};

pub use configuration::merge_configuration;
pub use conflict::{Conflict, Conflicts};

use crate::depth;
use crate::fieldset::FieldPath;
use crate::managed::{self, Entries, Entry, EntryError, Manager, Operation, strip_untracked};
use crate::typed::{self, Containers};

/// Who owned the fields of an object before anything tracked it.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Conflict(Conflicts),
    #[error("an applied configuration must be an object")]
    NotAnObject,
    #[error("the applied configuration is nested too deep")]
    TooDeep,
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    #[error(
        "Incorrect version specified in apply patch. Specified patch version: {specified}, expected: {expected}"
    )]
    Version { specified: String, expected: String },
    /// A list of the configuration has elements that cannot be told apart.
    #[error("{path}: {reason}")]
    List { path: FieldPath, reason: String },
    /// Fields of the configuration that the schema does not have.
    #[error("{}", undeclared_text(.0))]
    Undeclared(Vec<FieldPath>),
    /// Values that can only be replaced whole, where the rest of them would be lost unseen.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", paths_text(.0))]
    Atomic(Vec<FieldPath>),
    /// The live object's managedFields cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Stored(EntryError),
}

impl ApplyError {
    /// The HTTP status upstream answers with.
    pub fn status(&self) -> u16 {
        match self {
            ApplyError::Conflict(_) => 409,
            ApplyError::Stored(_) | ApplyError::Undeclared(_) => 500,
            _ => 400,
        }
    }
}

/// Merges `applied` into `live` (`None`: the object is created) and returns the object to store, with
/// updated managedFields. The caller defaults and validates it, and then calls [`managed::keep_times`].
pub fn server_side(
    live: Option<&Value>,
    applied: &Value,
    schema: &Schema,
    manager: &Manager,
    force: bool,
    now: Timestamp,
) -> Result<Value, ApplyError> {
    check(applied, schema, manager)?;
    let applied = &*manager.writable(applied);
    let apply = Apply { live, applied, schema, manager, now };
    match apply.run(force) {
        Err(ApplyError::Conflict(conflicts)) => {
            let allowed = live.and_then(|live| last_applied::handed_over(live, schema, manager));
            let Some(allowed) = allowed else { return Err(ApplyError::Conflict(conflicts)) };
            match conflicts.without(&allowed) {
                None => apply.run(true),
                Some(rest) => Err(ApplyError::Conflict(rest)),
            }
        }
        done => done,
    }
}

/// Refuses a configuration with fields that its kind does not have. It stands alone because the server drops
/// unknown fields before it applies a configuration.
pub fn check_declared(applied: &Value, schema: &Schema) -> Result<(), ApplyError> {
    let found = typed::undeclared(schema, applied);
    if found.is_empty() { Ok(()) } else { Err(ApplyError::Undeclared(found)) }
}

fn paths_text(paths: &[FieldPath]) -> String {
    paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn undeclared_text(paths: &[FieldPath]) -> String {
    let texts: Vec<String> =
        paths.iter().map(|path| format!("{path}: field not declared in schema")).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    }
}

/// Refuses configurations that cannot be applied to anything.
fn check(applied: &Value, schema: &Schema, manager: &Manager) -> Result<(), ApplyError> {
    if !applied.is_object() {
        return Err(ApplyError::NotAnObject);
    }
    depth::check(applied).map_err(|_| ApplyError::TooDeep)?;
    let specified = applied.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if specified != manager.api_version {
        let (specified, expected) = (specified.to_owned(), manager.api_version.clone());
        return Err(ApplyError::Version { specified, expected });
    }
    if managed::managed_fields(applied).is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::ManagedFields);
    }
    typed::keys::check(schema, applied).map_err(|(path, reason)| ApplyError::List { path, reason })
}

/// One apply request.
struct Apply<'a> {
    live: Option<&'a Value>,
    applied: &'a Value,
    schema: &'a Schema,
    manager: &'a Manager,
    now: Timestamp,
}

impl Apply<'_> {
    fn run(&self, force: bool) -> Result<Value, ApplyError> {
        let schema = Some(self.schema);
        let mut others = self.entries()?;
        let fields = typed::fields_of(schema, self.applied, Containers::Implied, 0);
        let mut own = self.manager.entry(Operation::Apply, fields, self.now);
        let last = others.take(&own);

        let empty = Value::Object(Map::new());
        let live = self.live.unwrap_or(&empty);
        let mut merged = managed::clone_unmanaged(live);
        typed::merge(schema, &mut merged, self.applied, 0);
        if let Some(last) = last.as_ref().filter(|last| !last.fields.is_subset(&own.fields)) {
            let owned = others.union().union(&own.fields);
            typed::prune(schema, &mut merged, &last.fields, &owned, 0);
        }

        if !others.0.is_empty() {
            let mut change = typed::compare(self.schema, live, &merged);
            change.sets_mut().into_iter().for_each(strip_untracked);
            if !force && let Some(conflicts) = Conflicts::find(&others, &change) {
                return Err(ApplyError::Conflict(conflicts));
            }
            others.lose(&change);
        }

        if typed::contains_null(self.applied) {
            typed::drop_nulls(schema, &mut merged);
        }
        last_applied::refresh(&mut merged, self.applied, self.manager);
        strip_untracked(&mut own.fields);
        if let Some(last) = last.filter(|last| self.changes_nothing(last, &own, live, &merged)) {
            own.time = last.time;
        }
        others.0.push(own);
        managed::set_managed_fields(&mut merged, others.encode());
        Ok(merged)
    }

    /// The entries of the live object. One that nobody tracked belongs to everyone before.
    fn entries(&self) -> Result<Entries, ApplyError> {
        let Some(live) = self.live else { return Ok(Entries::default()) };
        let mut entries = Entries::decode(managed::managed_fields(live)).map_err(ApplyError::Stored)?;
        entries.reconcile(self.schema);
        if entries.0.is_empty() {
            let before = Manager { name: BEFORE_FIRST_APPLY.to_owned(), ..self.manager.clone() };
            entries.0.extend(managed::creator(live, self.schema, &before, self.now));
        }
        Ok(entries)
    }

    fn changes_nothing(&self, last: &Entry, own: &Entry, live: &Value, merged: &Value) -> bool {
        last.fields == own.fields && last.api_version == own.api_version && equal_but_managed(live, merged)
    }
}

/// Whether two objects are equal but for their managedFields, which `merged` does not have.
fn equal_but_managed(live: &Value, merged: &Value) -> bool {
    let (Value::Object(live), Value::Object(merged)) = (live, merged) else { return false };
    live.len() == merged.len()
        && live.iter().all(|(name, before)| match (merged.get(name), before) {
            (Some(Value::Object(after)), Value::Object(before)) if name == "metadata" => {
                let others = before.iter().filter(|(name, _)| *name != "managedFields");
                let count = before.len() - usize::from(before.contains_key("managedFields"));
                after.len() == count && others.into_iter().all(|(name, v)| after.get(name) == Some(v))
            }
            (after, before) => after == Some(before),
        })
}
