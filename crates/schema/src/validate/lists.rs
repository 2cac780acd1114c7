//! Lists that are sets or maps: no element may stand twice.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::trail::Trail;
use crate::{FieldErrors, ListType, Schema};

/// Reports elements whose identity an earlier element has.
pub(super) fn check_keys(
    list_type: &ListType,
    items: Option<&Schema>,
    list: &[Value],
    trail: &Trail<'_>,
    errors: &mut FieldErrors,
) {
    let identity: &dyn Fn(&Value) -> Option<Value> = match list_type {
        ListType::Atomic => return,
        ListType::Set => &|element| Some(element.clone()),
        ListType::Map(keys) => &|element| key_of(element.as_object()?, keys, items),
    };
    let mut seen = HashSet::new();
    for (index, element) in list.iter().enumerate() {
        let Some(identity) = identity(element) else { continue };
        if !seen.insert(canonical(&identity)) && errors.iter().len() < super::MAX_REPORTED {
            errors.duplicate(Trail::Index(trail, index).path(), identity);
        }
    }
}

pub(super) fn has_duplicates(list: &[Value]) -> bool {
    let mut seen = HashSet::new();
    !list.iter().all(|element| seen.insert(canonical(element)))
}

/// The key fields of an element; one that is left out counts with its default.
fn key_of(element: &Map<String, Value>, keys: &[Box<str>], items: Option<&Schema>) -> Option<Value> {
    let default = |key: &str| items?.fields.get(key)?.default.clone();
    let field = |key: &str| element.get(key).cloned().or_else(|| default(key));
    Some(keys.iter().filter_map(|key| Some((key.to_string(), field(key)?))).collect::<Map<_, _>>().into())
}

/// A text that is the same for equal values, whatever the order of their fields.
fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in entries {
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for element in list {
                write_canonical(element, out);
                out.push(',');
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}
