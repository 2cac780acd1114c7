//! Functions on arrays.

use super::argument;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::value::Value;

type Answer = Result<Value, Error>;

pub fn append(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (first, second) = (argument(arguments, 0), argument(arguments, 1));
    if first.is_undefined() {
        return Ok(second.clone());
    }
    if second.is_undefined() {
        return Ok(first.clone());
    }
    let sequence = !matches!(first, Value::Array(_));
    let mut items = first.items();
    items.extend(second.items());
    evaluator.spend_items(items.len())?;
    Ok(if sequence { Value::sequence(items) } else { Value::array(items) })
}

pub fn reverse(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::Array(array) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    if array.items.len() <= 1 {
        return Ok(argument(arguments, 0).clone());
    }
    evaluator.spend_items(array.items.len())?;
    Ok(Value::array(array.items.iter().rev().cloned().collect()))
}

pub fn shuffle(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::Array(array) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    if array.items.len() <= 1 {
        return Ok(argument(arguments, 0).clone());
    }
    evaluator.spend_items(array.items.len())?;
    let mut items = array.items.clone();
    for at in (1..items.len()).rev() {
        let other = (evaluator.draw() % (at as u64 + 1)) as usize;
        items.swap(at, other);
    }
    Ok(Value::array(items))
}

pub fn distinct(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let value = argument(arguments, 0);
    let Value::Array(array) = value else { return Ok(value.clone()) };
    if array.items.len() <= 1 {
        return Ok(value.clone());
    }
    let mut kept: Vec<Value> = Vec::new();
    for item in &array.items {
        let mut new = true;
        for other in &kept {
            evaluator.step()?;
            if other.equals(item) {
                new = false;
                break;
            }
        }
        if new {
            kept.push(item.clone());
        }
    }
    evaluator.spend_items(kept.len())?;
    Ok(if array.sequence { Value::sequence(kept) } else { Value::array(kept) })
}

pub fn zip(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let length =
        arguments.iter().map(|list| list.as_array().map_or(0, |list| list.items.len())).min().unwrap_or(0);
    evaluator.spend_items(length.saturating_mul(arguments.len() + 1))?;
    let rows = (0..length).map(|at| {
        Value::array(arguments.iter().filter_map(|list| list.as_array()?.items.get(at).cloned()).collect())
    });
    Ok(Value::array(rows.collect()))
}

/// Merge sort, as the order of comparisons shows when the comparison is the caller's.
pub fn sort(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::Array(array) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    if array.items.len() <= 1 {
        return Ok(argument(arguments, 0).clone());
    }
    evaluator.spend_items(array.items.len() * 2)?;
    let comparator = argument(arguments, 1);
    if comparator.is_undefined() {
        let numbers = array.items.iter().all(|item| matches!(item, Value::Number(_)));
        let texts = array.items.iter().all(|item| matches!(item, Value::String(_)));
        if !numbers && !texts {
            let message = "The single argument form of the sort function can only be applied to an array of strings or an array of numbers.  Use the second argument to specify a comparison function";
            return Err(Error::new("D3070", message));
        }
    }
    let sorted = merge_sort(evaluator, array.items.clone(), comparator)?;
    Ok(Value::array(sorted))
}

fn merge_sort(evaluator: &mut Evaluator, items: Vec<Value>, comparator: &Value) -> Result<Vec<Value>, Error> {
    if items.len() <= 1 {
        return Ok(items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let (left, right) = (merge_sort(evaluator, left, comparator)?, merge_sort(evaluator, right, comparator)?);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        if after(evaluator, a, b, comparator)? {
            merged.extend(right.next());
        } else {
            merged.extend(left.next());
        }
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

fn after(evaluator: &mut Evaluator, a: &Value, b: &Value, comparator: &Value) -> Result<bool, Error> {
    evaluator.step()?;
    match (comparator, a, b) {
        (Value::Undefined, Value::Number(a), Value::Number(b)) => Ok(a > b),
        (Value::Undefined, Value::String(a), Value::String(b)) => Ok(a.encode_utf16().gt(b.encode_utf16())),
        _ => {
            let result = evaluator.apply(comparator, vec![a.clone(), b.clone()], &Value::Undefined, None)?;
            Ok(result.is_true())
        }
    }
}
