//! Optional values: `optional.of(x)`, `.orValue(y)`. `or`, `optMap` and `?` are the evaluator's.

use super::{Evaluated, Row, is_zero, mismatch};
use crate::error::EvalError;
use crate::value::Value;

pub const TABLE: &[Row] = &[
    ("optional_of", "optional.of(A) -> optional(A)", |_, args| Ok(Value::some(args[0].clone()))),
    ("optional_ofNonZeroValue", "optional.ofNonZeroValue(A) -> optional(A)", |_, args| {
        Ok(if is_zero(&args[0]) { Value::none() } else { Value::some(args[0].clone()) })
    }),
    ("optional_none", "optional.none() -> optional(A)", |_, _| Ok(Value::none())),
    ("optional_value", "optional(A)::value() -> A", |_, args| match &args[0] {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => Err(EvalError::failed("optional.none() dereference")),
        _ => mismatch(),
    }),
    ("optional_hasValue", "optional(A)::hasValue() -> bool", |_, args| match &args[0] {
        Value::Optional(value) => Ok(Value::Bool(value.is_some())),
        _ => mismatch(),
    }),
    ("optional_or_optional", "optional(A)::or(optional(A)) -> optional(A)", |_, _| mismatch()),
    ("optional_orValue_value", "optional(A)::orValue(A) -> A", |_, _| mismatch()),
    ("list_first", "list(A)::first() -> optional(A)", |_, args| match &args[0] {
        Value::List(list) => Ok(list.get(0).map_or_else(Value::none, Value::some)),
        _ => mismatch(),
    }),
    ("list_last", "list(A)::last() -> optional(A)", |_, args| match &args[0] {
        Value::List(list) => {
            let last = list.len().checked_sub(1).and_then(|at| list.get(at));
            Ok(last.map_or_else(Value::none, Value::some))
        }
        _ => mismatch(),
    }),
    ("optional_unwrap", "optional.unwrap(list(optional(A))) -> list(A)", |_, args| unwrap(args)),
    ("optional_unwrapOpt", "list(optional(A))::unwrapOpt() -> list(A)", |_, args| unwrap(args)),
];

fn unwrap<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let Value::List(list) = &args[0] else { return mismatch() };
    let values = list.iter().filter_map(|value| match value {
        Value::Optional(Some(value)) => Some((*value).clone()),
        _ => None,
    });
    Ok(Value::list(values.collect()))
}
