//! The operators and `size`. `&&`, `||`, `?:`, indexing and selection are the evaluator's.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use jiff::SignedDuration;

use super::conversions::from_year_one;
use super::{Evaluated, Implementation, Overload, Row, Site, mismatch};
use crate::declaration::ListKind;
use crate::equality::{compare, equal, identity};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{List, Value};

pub const TABLE: &[Row] = &[
    ("equals", "_==_(A, A) -> bool", |_, args| Ok(Value::Bool(equal(&args[0], &args[1])))),
    ("not_equals", "_!=_(A, A) -> bool", |_, args| Ok(Value::Bool(!equal(&args[0], &args[1])))),
    ("logical_not", "!_(bool) -> bool", |_, args| match &args[0] {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => mismatch(),
    }),
    ("logical_and", "_&&_(bool, bool) -> bool", |_, _| mismatch()),
    ("logical_or", "_||_(bool, bool) -> bool", |_, _| mismatch()),
    ("conditional", "_?_:_(bool, A, A) -> A", |_, _| mismatch()),
    ("index_list", "_[_](list(A), int) -> A", |_, _| mismatch()),
    ("index_map", "_[_](map(A, B), A) -> B", |_, _| mismatch()),
    ("optional_list_index_int", "_[_](optional(list(A)), int) -> optional(A)", |_, _| mismatch()),
    ("optional_map_index_value", "_[_](optional(map(A, B)), A) -> optional(B)", |_, _| mismatch()),
    ("list_optindex_optional_int", "_[?_](list(A), int) -> optional(A)", |_, _| mismatch()),
    ("optional_list_optindex_optional_int", "_[?_](optional(list(A)), int) -> optional(A)", |_, _| {
        mismatch()
    }),
    ("map_optindex_optional_value", "_[?_](map(A, B), A) -> optional(B)", |_, _| mismatch()),
    ("optional_map_optindex_optional_value", "_[?_](optional(map(A, B)), A) -> optional(B)", |_, _| {
        mismatch()
    }),
    ("in_list", "@in(A, list(A)) -> bool", is_in),
    ("in_map", "@in(A, map(A, B)) -> bool", is_in),
    ("add_int64", "_+_(int, int) -> int", add),
    ("add_uint64", "_+_(uint, uint) -> uint", add),
    ("add_double", "_+_(double, double) -> double", add),
    ("add_string", "_+_(string, string) -> string", add),
    ("add_bytes", "_+_(bytes, bytes) -> bytes", add),
    ("add_list", "_+_(list(A), list(A)) -> list(A)", add),
    ("add_timestamp_duration", "_+_(timestamp, duration) -> timestamp", add),
    ("add_duration_timestamp", "_+_(duration, timestamp) -> timestamp", add),
    ("add_duration_duration", "_+_(duration, duration) -> duration", add),
    ("subtract_int64", "_-_(int, int) -> int", subtract),
    ("subtract_uint64", "_-_(uint, uint) -> uint", subtract),
    ("subtract_double", "_-_(double, double) -> double", subtract),
    ("subtract_timestamp_duration", "_-_(timestamp, duration) -> timestamp", subtract),
    ("subtract_timestamp_timestamp", "_-_(timestamp, timestamp) -> duration", subtract),
    ("subtract_duration_duration", "_-_(duration, duration) -> duration", subtract),
    ("multiply_int64", "_*_(int, int) -> int", multiply),
    ("multiply_uint64", "_*_(uint, uint) -> uint", multiply),
    ("multiply_double", "_*_(double, double) -> double", multiply),
    ("divide_int64", "_/_(int, int) -> int", divide),
    ("divide_uint64", "_/_(uint, uint) -> uint", divide),
    ("divide_double", "_/_(double, double) -> double", divide),
    ("modulo_int64", "_%_(int, int) -> int", modulo),
    ("modulo_uint64", "_%_(uint, uint) -> uint", modulo),
    ("negate_int64", "-_(int) -> int", negate),
    ("negate_double", "-_(double) -> double", negate),
    ("size_string", "size(string) -> int", size),
    ("size_bytes", "size(bytes) -> int", size),
    ("size_list", "size(list(A)) -> int", size),
    ("size_map", "size(map(A, B)) -> int", size),
    ("string_size", "string::size() -> int", size),
    ("bytes_size", "bytes::size() -> int", size),
    ("list_size", "list(A)::size() -> int", size),
    ("map_size", "map(A, B)::size() -> int", size),
];

/// `<`, `<=`, `>` and `>=` for every pair of types that has an order.
pub fn comparisons() -> impl Iterator<Item = Overload> {
    const OPERATORS: [(&str, &str, Implementation); 4] = [
        ("_<_", "less", |_, args| ordered(args, Ordering::is_lt)),
        ("_<=_", "less_equals", |_, args| ordered(args, Ordering::is_le)),
        ("_>_", "greater", |_, args| ordered(args, Ordering::is_gt)),
        ("_>=_", "greater_equals", |_, args| ordered(args, Ordering::is_ge)),
    ];
    let same = [
        ("bool", Type::Bool),
        ("int64", Type::Int),
        ("uint64", Type::Uint),
        ("double", Type::Double),
        ("string", Type::String),
        ("bytes", Type::Bytes),
        ("timestamp", Type::Timestamp),
        ("duration", Type::Duration),
    ];
    let numbers = [("int64", Type::Int), ("uint64", Type::Uint), ("double", Type::Double)];
    OPERATORS.into_iter().flat_map(move |(function, name, call)| {
        let make = move |id: String, params: Vec<Type>| {
            let function = function.to_owned();
            Overload { function, id, is_member: false, params, result: Type::Bool, call }
        };
        let alike = same.clone().map(|(ty, of)| make(format!("{name}_{ty}"), vec![of.clone(), of]));
        let pairs = numbers.iter().flat_map(|one| numbers.iter().map(move |two| (one, two)));
        let mixed = pairs.filter(|(one, two)| one.0 != two.0);
        let mixed = mixed.map(|(one, two)| {
            make(format!("{name}_{}_{}", one.0, two.0), vec![one.1.clone(), two.1.clone()])
        });
        alike.into_iter().chain(mixed.collect::<Vec<_>>()).collect::<Vec<_>>()
    })
}

fn ordered<'a>(args: &[Value<'a>], wanted: fn(Ordering) -> bool) -> Evaluated<'a> {
    let is_nan = |value: &Value| matches!(value, Value::Double(number) if number.is_nan());
    match compare(&args[0], &args[1]) {
        Some(order) => Ok(Value::Bool(wanted(order))),
        None if is_nan(&args[0]) || is_nan(&args[1]) => Ok(Value::Bool(false)),
        None => mismatch(),
    }
}

fn is_in<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[1] {
        Value::List(list) => Ok(Value::Bool(list.iter().any(|value| equal(&args[0], &value)))),
        Value::Map(map) => Ok(Value::Bool(map.contains(&args[0]))),
        _ => mismatch(),
    }
}

fn add<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match (&args[0], &args[1]) {
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_add(*two).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(two)) => {
            Value::Uint(one.checked_add(*two).ok_or_else(unsigned_overflow)?)
        }
        (Value::Double(one), Value::Double(two)) => Value::Double(one + two),
        (Value::String(one), Value::String(two)) => [&**one, &**two].concat().into(),
        (Value::Bytes(one), Value::Bytes(two)) => Value::Bytes([&**one, &**two].concat().into()),
        (Value::List(one), Value::List(two)) => concatenate(one, two),
        (Value::Timestamp(time), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(time)) => {
            let moved = time.checked_add(SignedDuration::from_nanos(*by));
            from_year_one(moved.map_err(|_| EvalError::failed("timestamp overflow"))?)?
        }
        (Value::Duration(one), Value::Duration(two)) => {
            Value::Duration(one.checked_add(*two).ok_or_else(duration_overflow)?)
        }
        _ => return mismatch(),
    })
}

/// Lists end to end; sets and keyed lists as what they are: each element once.
fn concatenate<'a>(one: &List<'a>, two: &List<'a>) -> Value<'a> {
    let mut found: Vec<Value<'a>> = Vec::with_capacity(one.len() + two.len());
    found.extend(one.iter());
    match one.kind() {
        ListKind::Atomic => found.extend(two.iter()),
        kind => {
            let mut known: HashMap<String, usize> =
                found.iter().enumerate().map(|(at, value)| (key_of(value, kind), at)).collect();
            for value in two.iter() {
                match known.entry(key_of(&value, kind)) {
                    // In a keyed list the later element stands for the earlier one.
                    Entry::Occupied(place) => found[*place.get()] = value,
                    Entry::Vacant(place) => {
                        place.insert(found.len());
                        found.push(value);
                    }
                }
            }
        }
    }
    Value::List(List::Made(Arc::new(found)))
}

/// What tells an element of a set or a keyed list from the others.
fn key_of(value: &Value, kind: &ListKind) -> String {
    match (kind, value) {
        (ListKind::Map(keys), Value::Map(map)) => {
            let values = keys.iter().map(|key| map.field(key).map(|value| identity(&value)));
            format!("{:?}", values.collect::<Vec<_>>())
        }
        _ => identity(value),
    }
}

fn subtract<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match (&args[0], &args[1]) {
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_sub(*two).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(two)) => {
            Value::Uint(one.checked_sub(*two).ok_or_else(unsigned_overflow)?)
        }
        (Value::Double(one), Value::Double(two)) => Value::Double(one - two),
        (Value::Timestamp(time), Value::Duration(by)) => {
            let moved = time.checked_sub(SignedDuration::from_nanos(*by));
            from_year_one(moved.map_err(|_| EvalError::failed("timestamp overflow"))?)?
        }
        (Value::Timestamp(one), Value::Timestamp(two)) => {
            let between = one.as_nanosecond() - two.as_nanosecond();
            Value::Duration(i64::try_from(between).map_err(|_| duration_overflow())?)
        }
        (Value::Duration(one), Value::Duration(two)) => {
            Value::Duration(one.checked_sub(*two).ok_or_else(duration_overflow)?)
        }
        _ => return mismatch(),
    })
}

fn multiply<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match (&args[0], &args[1]) {
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_mul(*two).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(two)) => {
            Value::Uint(one.checked_mul(*two).ok_or_else(unsigned_overflow)?)
        }
        (Value::Double(one), Value::Double(two)) => Value::Double(one * two),
        _ => return mismatch(),
    })
}

fn divide<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(EvalError::failed("division by zero"));
        }
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_div(*two).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(two)) => Value::Uint(one / two),
        (Value::Double(one), Value::Double(two)) => Value::Double(one / two),
        _ => return mismatch(),
    })
}

fn modulo<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(EvalError::failed("modulus by zero"));
        }
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_rem(*two).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(two)) => Value::Uint(one % two),
        _ => return mismatch(),
    })
}

fn negate<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        Value::Int(number) => Ok(Value::Int(number.checked_neg().ok_or_else(overflow)?)),
        Value::Double(number) => Ok(Value::Double(-number)),
        _ => mismatch(),
    }
}

fn size<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)) => {
            Ok(Value::Int(value.size().unwrap_or_default() as i64))
        }
        _ => mismatch(),
    }
}

fn overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

fn unsigned_overflow() -> EvalError {
    EvalError::failed("unsigned integer overflow")
}

fn duration_overflow() -> EvalError {
    EvalError::failed("duration overflow")
}
