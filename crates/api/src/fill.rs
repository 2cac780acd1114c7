//! Filling in what the user left out.
//!
//! Nothing here overwrites a value, so that defaulting twice is defaulting once. `null` and the empty text
//! count as left out, as in upstream's types.

use serde_json::{Map, Value};

/// The map in a field, made if it is not there; None where something else is.
pub fn map<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let slot = value.as_object_mut()?.entry(field).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// The value of a field, made a map if it is not there.
pub fn object<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    map(value, field)?;
    value.get_mut(field)
}

/// The elements of the list in a field; none where there is no list.
pub fn items<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field that was left out.
pub fn field(value: &mut Value, field: &str, default: impl Into<Value>) {
    if let Some(fields) = value.as_object_mut() {
        let slot = fields.entry(field).or_insert(Value::Null);
        if slot.is_null() || slot.as_str() == Some("") {
            *slot = default.into();
        }
    }
}

/// Takes a field away.
pub fn remove(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove(field);
    }
}

/// Makes a field what it is in another object, also if that is nothing.
pub fn restore(value: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(kept) if value.is_object() => value[field] = kept.clone(),
        _ => remove(value, field),
    }
}
