//! What a kind does beyond what all kinds do. Every method has the ordinary behaviour as its default.

use jiff::Timestamp;
use serde_json::Value;

use crate::{Cell, Column, FieldErrors};

/// A part of an object: the name of one of its fields, and of a field of that.
pub type Part = (&'static str, &'static str);

/// The way to a field from the object's root, through every element of the lists on it.
pub type FieldPath = &'static [&'static str];

/// Objects arrive schema-checked: every known field has its declared type.
pub trait Strategy: Send + Sync + 'static {
    /// Fills in what the user left out. Idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Before a new object is stored: drops what users may not set (the registry handles `status`).
    fn prepare_create(&self, _object: &mut Value) {}

    /// Whether a new object may come with a status: nodes register with one.
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Before a changed object is stored.
    fn prepare_update(&self, _object: &mut Value, _old: &Value) {}

    fn validate(&self, _object: &Value, _errors: &mut FieldErrors) {}

    /// Beyond `validate`: what may not change.
    fn validate_update(&self, _object: &Value, _old: &Value, _errors: &mut FieldErrors) {}

    /// Beyond `validate_update`: what may not change through the resource itself (`""`) or one of its
    /// subresources. Writes that the server makes of its own accord (binding a pod) do not ask.
    fn validate_change(&self, _subresource: &str, _object: &Value, _old: &Value, _errors: &mut FieldErrors) {}

    /// Advice that does not stop the request (the `Warning` header).
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Field selector values beyond `metadata.name` and `metadata.namespace`.
    fn selectable(&self, _object: &Value) -> Vec<(&str, String)> {
        Vec::new()
    }

    /// All field selector names that `selectable` may give.
    fn selectable_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// All that `selectable` looks at for this field; None if that may be anything.
    fn selectable_parts(&self, _field: &str) -> Option<&'static [Part]> {
        None
    }

    /// Whether `selectable` gives this field. A kind defined at run time has names of its own.
    fn is_selectable(&self, field: &str) -> bool {
        self.selectable_names().contains(&field)
    }

    /// Table columns; None is Name and Age.
    fn columns(&self) -> Option<Vec<Column>> {
        None
    }

    /// One cell per column.
    fn row(&self, _object: &Value, _now: Timestamp) -> Vec<Cell> {
        Vec::new()
    }

    /// All that `row` looks at; None if that may be anything. Tables of thousands of objects are made of no more
    /// than these fields.
    fn row_paths(&self) -> Option<&'static [FieldPath]> {
        None
    }

    /// How long the object stays after a delete (pods), given what the request asks for.
    fn grace_seconds(&self, _object: &Value, _requested: Option<i64>) -> i64 {
        0
    }

    /// When the object begins to end.
    fn prepare_delete(&self, _object: &mut Value) {}

    /// Whether something besides `metadata.finalizers` keeps an object that is about to end.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Whether objects have [`crate::Records`] beside them, which go with them.
    fn keeps_records(&self) -> bool {
        false
    }

    /// From the served form to the stored one, where a kind has two API versions.
    fn to_stored(&self, _object: &mut Value) {}

    /// From the stored form to the served one.
    #[expect(
        clippy::wrong_self_convention,
        reason = "the converse of to_stored; self is the kind, not the object"
    )]
    fn from_stored(&self, _object: &mut Value) {}
}

/// The strategy of a kind that is data and nothing else.
pub struct Plain;

impl Strategy for Plain {}
