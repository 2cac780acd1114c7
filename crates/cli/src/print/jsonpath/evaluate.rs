//! [`Template`](super::Template) × value → text.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Filter, Operand, Operator, Path, Piece, Step, show};

pub fn render(pieces: &[Piece], value: &Value, root: &Value, out: &mut String) -> Result<(), String> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Print(path) => {
                let found: Vec<String> = find(path, value, root)?.into_iter().map(show).collect();
                out.push_str(&found.join(" "));
            }
            Piece::Range(path, inner) => {
                for item in find(path, value, root)? {
                    render(inner, item, root, out)?;
                }
            }
        }
    }
    Ok(())
}

pub fn find<'v>(path: &Path, value: &'v Value, root: &'v Value) -> Result<Vec<&'v Value>, String> {
    let mut current = vec![value];
    for step in &path.steps {
        current = take(step, &current, root)?;
    }
    Ok(current)
}

fn take<'v>(step: &Step, values: &[&'v Value], root: &'v Value) -> Result<Vec<&'v Value>, String> {
    let mut found = Vec::new();
    for value in values.iter().copied() {
        match step {
            Step::Root => return Ok(vec![root]),
            Step::Field(name) => found.extend(value.get(name)),
            Step::Wildcard => found.extend(children(value)),
            Step::Recursive => descend(value, &mut found),
            Step::Union(paths) => {
                for path in paths {
                    found.extend(find(path, value, root)?);
                }
            }
            Step::Filter(filter) => {
                for item in value.as_array().into_iter().flatten() {
                    if holds(filter, item, root)? {
                        found.push(item);
                    }
                }
            }
            Step::Slice { first, last, step, single } => match value {
                Value::Array(items) => found.extend(slice(items, *first, *last, *step, *single)),
                Value::Null => {}
                _ => {
                    return Err(format!(
                        "{} is not array or slice and cannot be accessed by index",
                        show(value)
                    ));
                }
            },
        }
    }
    Ok(found)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            keys.into_iter().map(|key| &map[key]).collect()
        }
        _ => Vec::new(),
    }
}

fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let below = children(value);
    if !below.is_empty() {
        found.push(value);
        for child in below {
            descend(child, found);
        }
    }
}

fn slice(items: &[Value], first: Option<i64>, last: Option<i64>, step: i64, single: bool) -> Vec<&Value> {
    let length = items.len() as i64;
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let first = from_end(first.unwrap_or(0));
    if single {
        return usize::try_from(first).ok().and_then(|index| items.get(index)).into_iter().collect();
    }
    let last = from_end(last.unwrap_or(length)).min(length);
    let step = usize::try_from(step).unwrap_or(1);
    let (first, last) = (usize::try_from(first).unwrap_or(0), usize::try_from(last).unwrap_or(0));
    items.get(first..last).unwrap_or_default().iter().step_by(step).collect()
}

fn holds(filter: &Filter, item: &Value, root: &Value) -> Result<bool, String> {
    match filter {
        Filter::Exists(operand) => Ok(resolve(operand, item, root)?.is_some()),
        Filter::Compare(left, operator, right) => {
            let (left, right) = (resolve(left, item, root)?, resolve(right, item, root)?);
            let (Some(left), Some(right)) = (left, right) else { return Ok(false) };
            Ok(match (operator, order(left, right)) {
                (Operator::Equal, _) => left == right || order(left, right) == Some(Ordering::Equal),
                (Operator::NotEqual, order) => left != right && order != Some(Ordering::Equal),
                (_, None) => false,
                (Operator::Less, Some(order)) => order.is_lt(),
                (Operator::LessOrEqual, Some(order)) => order.is_le(),
                (Operator::Greater, Some(order)) => order.is_gt(),
                (Operator::GreaterOrEqual, Some(order)) => order.is_ge(),
            })
        }
    }
}

fn resolve<'v>(operand: &'v Operand, item: &'v Value, root: &'v Value) -> Result<Option<&'v Value>, String> {
    match operand {
        Operand::Literal(value) => Ok(Some(value)),
        Operand::Path(path) => Ok(find(path, item, root)?.into_iter().next()),
    }
}

/// None: they cannot be held against each other.
pub fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}
