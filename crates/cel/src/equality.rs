//! Which values are equal, and which is less. Numbers of different types compare by what they mean.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::declaration::{Declaration, ListKind};
use crate::escape::escape;
use crate::types::Type;
use crate::value::{List, Map, Value};

/// `==`: values of different types are not equal.
pub fn equal(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(two)) => one == two,
        (Value::String(one), Value::String(two)) => **one == **two,
        (Value::Bytes(one), Value::Bytes(two)) => one == two,
        (Value::Duration(one), Value::Duration(two)) => one == two,
        (Value::Timestamp(one), Value::Timestamp(two)) => one == two,
        (Value::Type(one), Value::Type(two)) => one == two,
        (Value::Ip(one), Value::Ip(two)) => one == two,
        (Value::Cidr(one), Value::Cidr(two)) => one == two,
        (Value::Quantity(one), Value::Quantity(two)) => one.cmp(two).is_eq(),
        (Value::Semver(one), Value::Semver(two)) => one.order(two).is_eq(),
        (Value::Url(one), Value::Url(two)) => one == two,
        (Value::Format(one), Value::Format(two)) => one == two,
        (Value::Check(one), Value::Check(two)) => one == two,
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(one)), Value::Optional(Some(two))) => equal(one, two),
        (Value::List(one), Value::List(two)) => equal_lists(one, two),
        (Value::Map(one), Value::Map(two)) => equal_maps(one, two),
        _ => compare_numbers(one, two) == Some(Ordering::Equal),
    }
}

fn equal_lists(one: &List, two: &List) -> bool {
    if one.len() != two.len() {
        return false;
    }
    match (one.kind(), two.kind()) {
        (ListKind::Atomic, ListKind::Atomic) => {
            one.iter().zip(two.iter()).all(|(one, two)| equal(&one, &two))
        }
        // The order of a set or a list of keyed elements means nothing.
        _ => {
            let pairs = one.iter().zip(two.iter());
            pairs.into_iter().all(|(one, two)| equal(&one, &two)) || sorted(one) == sorted(two)
        }
    }
}

fn sorted(list: &List) -> Vec<String> {
    let mut found: Vec<String> = list.iter().map(|value| identity(&value)).collect();
    found.sort_unstable();
    found
}

/// The same text for equal values, to tell the elements of sets apart.
pub fn identity(value: &Value) -> String {
    value.to_json().map_or_else(|| value.to_string(), |json| sort_fields(json).to_string())
}

fn sort_fields(json: Json) -> Json {
    match json {
        Json::Object(fields) => {
            let mut fields: Vec<(String, Json)> =
                fields.into_iter().map(|(name, value)| (name, sort_fields(value))).collect();
            fields.sort_by(|one, two| one.0.cmp(&two.0));
            Json::Object(fields.into_iter().collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(sort_fields).collect()),
        other => other,
    }
}

fn equal_maps(one: &Map, two: &Map) -> bool {
    match (one, two) {
        (Map::Json { entries: one, of: None }, Map::Json { entries: two, of: None }) if one == two => true,
        (Map::Json { entries: one, of: one_of }, Map::Json { entries: two, of: two_of }) => {
            one.len() == two.len()
                && one.iter().all(|(name, value)| {
                    let value = Value::of_json(value, one_of.and_then(|of| element_of(of, name)));
                    let of_other = two_of.and_then(|of| element_of(of, name));
                    two.get(name).is_some_and(|other| equal(&value, &Value::of_json(other, of_other)))
                })
        }
        _ => {
            one.len() == two.len()
                && one.iter().all(|(key, value)| two.get(&key).is_some_and(|other| equal(&value, &other)))
        }
    }
}

/// What is declared about the entry of a map or the field of an object, by its name in JSON.
fn element_of<'a>(of: &'a Declaration, name: &str) -> Option<&'a Declaration> {
    match &of.ty {
        Type::Object(object) => Some(&object.fields.get(&escape(name)?)?.declaration),
        _ => of.element.as_deref(),
    }
}

/// The order of two values that have one; None for those that have none, as NaN.
pub fn compare(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::Bool(one), Value::Bool(two)) => Some(one.cmp(two)),
        (Value::String(one), Value::String(two)) => Some((**one).cmp(&**two)),
        (Value::Bytes(one), Value::Bytes(two)) => Some(one.cmp(two)),
        (Value::Duration(one), Value::Duration(two)) => Some(one.cmp(two)),
        (Value::Timestamp(one), Value::Timestamp(two)) => Some(one.cmp(two)),
        _ => compare_numbers(one, two),
    }
}

fn compare_numbers(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => Some(one.cmp(two)),
        (Value::Uint(one), Value::Uint(two)) => Some(one.cmp(two)),
        (Value::Double(one), Value::Double(two)) => one.partial_cmp(two),
        (Value::Int(one), Value::Uint(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
        (Value::Uint(one), Value::Int(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
        (Value::Int(whole), Value::Double(fraction)) => compare_whole(i128::from(*whole), *fraction),
        (Value::Uint(whole), Value::Double(fraction)) => compare_whole(i128::from(*whole), *fraction),
        (Value::Double(_), Value::Int(_) | Value::Uint(_)) => {
            compare_numbers(two, one).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// As doubles, which beyond 2^53 are not exact: so it is upstream.
fn compare_whole(whole: i128, fraction: f64) -> Option<Ordering> {
    (whole as f64).partial_cmp(&fraction)
}

/// Whether two JSON values say the same, numbers by what they mean.
pub fn same_json(one: &Json, two: &Json) -> bool {
    one == two || equal(&Value::of_json(one, None), &Value::of_json(two, None))
}
