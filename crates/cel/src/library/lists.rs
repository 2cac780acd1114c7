//! Lists: sorted, summed, searched, cut, flattened.

use std::cmp::Ordering;

use super::{Evaluated, Implementation, Overload, Row, Site, mismatch};
use crate::equality::{compare, equal};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{List, Value};

/// No list that an expression makes is longer: to go through it would cost more than an expression may.
pub const LONGEST: usize = 1_000_000;

pub const TABLE: &[Row] = &[
    ("list_a_index_of_int", "list(A)::indexOf(A) -> int", |_, args| position(args, false)),
    ("list_a_last_index_of_int", "list(A)::lastIndexOf(A) -> int", |_, args| position(args, true)),
    ("list_includes_dyn_dyn", "dyn::includes(dyn) -> bool", |_, args| match &args[0] {
        Value::List(list) => Ok(Value::Bool(list.iter().any(|value| equal(&value, &args[1])))),
        other => Ok(Value::Bool(equal(other, &args[1]))),
    }),
    ("list_slice", "list(A)::slice(int, int) -> list(A)", slice),
    ("list_flatten", "list(list(A))::flatten() -> list(A)", flatten),
    ("list_flatten_int", "list(dyn)::flatten(int) -> list(dyn)", flatten),
    ("lists_range", "lists.range(int) -> list(int)", range),
    ("list_reverse", "list(A)::reverse() -> list(A)", |_, args| match &args[0] {
        Value::List(list) => Ok(Value::list((0..list.len()).rev().filter_map(|at| list.get(at)).collect())),
        _ => mismatch(),
    }),
    ("list_distinct", "list(A)::distinct() -> list(A)", distinct),
];

/// The functions that want elements with an order or a sum, for each type that has one.
pub fn of_comparable_elements() -> impl Iterator<Item = Overload> {
    let comparable = [
        ("int", Type::Int),
        ("uint", Type::Uint),
        ("double", Type::Double),
        ("bool", Type::Bool),
        ("duration", Type::Duration),
        ("timestamp", Type::Timestamp),
        ("string", Type::String),
        ("bytes", Type::Bytes),
    ];
    comparable.into_iter().flat_map(|(name, ty)| {
        let list = Type::list(ty.clone());
        let make = |function: &str, id: String, result: Type, call: Implementation| Overload {
            function: function.to_owned(),
            id,
            is_member: true,
            params: vec![list.clone()],
            result,
            call,
        };
        let mut found = vec![
            make("isSorted", format!("list_{name}_is_sorted_bool"), Type::Bool, is_sorted),
            make("max", format!("list_{name}_max_{name}"), ty.clone(), |_, args| extreme(args, true)),
            make("min", format!("list_{name}_min_{name}"), ty.clone(), |_, args| extreme(args, false)),
            make("sort", format!("list_{name}_sort"), list.clone(), sort),
        ];
        let sum: Option<Implementation> = match ty {
            Type::Int => Some(|_, args| sum(args, Value::Int(0))),
            Type::Uint => Some(|_, args| sum(args, Value::Uint(0))),
            Type::Double => Some(|_, args| sum(args, Value::Double(0.0))),
            Type::Duration => Some(|_, args| sum(args, Value::Duration(0))),
            _ => None,
        };
        found.extend(sum.map(|sum| make("sum", format!("list_{name}_sum_{name}"), ty, sum)));
        found
    })
}

fn position<'a>(args: &[Value<'a>], last: bool) -> Evaluated<'a> {
    let Value::List(list) = &args[0] else { return mismatch() };
    let mut places =
        list.iter().enumerate().filter(|(_, value)| equal(value, &args[1])).map(|(at, _)| at as i64);
    let found = if last { places.last() } else { places.next() };
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn is_sorted<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let Value::List(list) = &args[0] else { return mismatch() };
    let pairs = list.iter().zip(list.iter().skip(1));
    let sorted = pairs.into_iter().all(|(one, two)| compare(&one, &two) != Some(Ordering::Greater));
    Ok(Value::Bool(sorted))
}

fn sum<'a>(args: &[Value<'a>], zero: Value<'a>) -> Evaluated<'a> {
    let Value::List(list) = &args[0] else { return mismatch() };
    list.iter().try_fold(zero, |sum, value| {
        Ok(match (&sum, &value) {
            (Value::Int(sum), Value::Int(number)) => {
                Value::Int(sum.checked_add(*number).ok_or_else(|| EvalError::failed("integer overflow"))?)
            }
            (Value::Uint(sum), Value::Uint(number)) => Value::Uint(
                sum.checked_add(*number).ok_or_else(|| EvalError::failed("unsigned integer overflow"))?,
            ),
            (Value::Double(sum), Value::Double(number)) => Value::Double(sum + number),
            (Value::Duration(sum), Value::Duration(by)) => {
                Value::Duration(sum.checked_add(*by).ok_or_else(|| EvalError::failed("duration overflow"))?)
            }
            _ => return mismatch(),
        })
    })
}

fn extreme<'a>(args: &[Value<'a>], largest: bool) -> Evaluated<'a> {
    let Value::List(list) = &args[0] else { return mismatch() };
    let wanted = if largest { Ordering::Less } else { Ordering::Greater };
    let found =
        list.iter().reduce(|best, value| if compare(&best, &value) == Some(wanted) { value } else { best });
    let name = if largest { "max" } else { "min" };
    found.ok_or_else(|| EvalError::failed(format!("{name} called on empty list")))
}

fn sort<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let Value::List(list) = &args[0] else { return mismatch() };
    let mut values: Vec<Value> = list.iter().collect();
    values.sort_by(|one, two| compare(one, two).unwrap_or(Ordering::Equal));
    Ok(Value::list(values))
}

fn slice<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return mismatch() };
    let failed = |why: String| Err(EvalError::failed(format!("cannot slice({start}, {end}), {why}")));
    if *start < 0 || *end < 0 {
        return failed("negative indexes not supported".to_owned());
    }
    if start > end {
        return failed("start index must be less than or equal to end index".to_owned());
    }
    if *end > list.len() as i64 {
        return failed(format!("list is length {}", list.len()));
    }
    Ok(Value::list((*start..*end).filter_map(|at| list.get(at as usize)).collect()))
}

fn flatten<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return mismatch(),
    };
    if depth < 0 {
        return Err(EvalError::failed("level must be non-negative"));
    }
    let mut found = Vec::new();
    unfold(list, depth, &mut found)?;
    Ok(Value::list(found))
}

fn unfold<'a>(list: &List<'a>, depth: i64, found: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
    for value in list.iter() {
        match value {
            Value::List(inner) if depth > 0 => unfold(&inner, depth - 1, found)?,
            _ if found.len() >= LONGEST => return Err(EvalError::CostLimit),
            other => found.push(other),
        }
    }
    Ok(())
}

fn range<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        // The cost is counted by the result, and would come too late.
        Value::Int(count) if *count > LONGEST as i64 => Err(EvalError::CostLimit),
        Value::Int(count) => Ok(Value::list((0..*count).map(Value::Int).collect())),
        _ => mismatch(),
    }
}

fn distinct<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let Value::List(list) = &args[0] else { return mismatch() };
    let mut found: Vec<Value> = Vec::new();
    for value in list.iter() {
        if !found.iter().any(|known| equal(known, &value)) {
            found.push(value);
        }
    }
    Ok(Value::list(found))
}
