//! The functions of Go templates, and the two that kubectl adds.

use std::cmp::Ordering;

use base64::Engine;
use serde_json::Value;

use super::is_true;
use crate::print::columns::go_value;

type Answer = Result<Option<Value>, String>;

pub fn call(name: &str, arguments: &[Option<Value>]) -> Answer {
    let first = arguments.first().and_then(Option::as_ref);
    let texts = || arguments.iter().map(|argument| shown(argument.as_ref())).collect::<Vec<_>>();
    match name {
        "print" => Ok(Some(texts().concat().into())),
        "println" => Ok(Some((texts().join(" ") + "\n").into())),
        "printf" => printf(arguments),
        "len" => length(first),
        "index" => index(arguments),
        "exists" => Ok(Some(index(arguments)?.is_some().into())),
        "not" => Ok(Some((!is_true(first)).into())),
        "and" => Ok(arguments.iter().find(|a| !is_true(a.as_ref())).or(arguments.last()).cloned().flatten()),
        "or" => Ok(arguments.iter().find(|a| is_true(a.as_ref())).or(arguments.last()).cloned().flatten()),
        "eq" => Ok(Some(
            arguments[1.min(arguments.len())..].iter().any(|other| same(first, other.as_ref())).into(),
        )),
        "ne" => Ok(Some((!same(first, arguments.get(1).and_then(Option::as_ref))).into())),
        "lt" => compare(arguments, Ordering::is_lt),
        "le" => compare(arguments, Ordering::is_le),
        "gt" => compare(arguments, Ordering::is_gt),
        "ge" => compare(arguments, Ordering::is_ge),
        "base64decode" => {
            let text = first.and_then(Value::as_str).unwrap_or_default();
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            let decoded = decoded.map_err(|error| format!("base64 decode error: {error}"))?;
            Ok(Some(String::from_utf8_lossy(&decoded).into_owned().into()))
        }
        _ => Err(format!("function {name:?} not defined")),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("<no value>".to_owned(), go_value)
}

fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn compare(arguments: &[Option<Value>], holds: fn(Ordering) -> bool) -> Answer {
    let order = match arguments {
        [Some(Value::Number(a)), Some(Value::Number(b))] => a.as_f64().partial_cmp(&b.as_f64()),
        [Some(Value::String(a)), Some(Value::String(b))] => Some(a.cmp(b)),
        _ => None,
    };
    order.map(|order| Some(holds(order).into())).ok_or_else(|| "incompatible types for comparison".to_owned())
}

fn length(value: Option<&Value>) -> Answer {
    let length = match value {
        Some(Value::String(text)) => text.len(),
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(map)) => map.len(),
        None | Some(Value::Null) => 0,
        Some(other) => return Err(format!("len of {}", go_value(other))),
    };
    Ok(Some(length.into()))
}

fn index(arguments: &[Option<Value>]) -> Answer {
    let Some((start, keys)) = arguments.split_first() else { return Err("index of nothing".to_owned()) };
    let mut value = start.clone();
    for key in keys {
        value = match (value, key) {
            (Some(Value::Array(items)), Some(Value::Number(at))) => {
                let at = at.as_u64().and_then(|at| usize::try_from(at).ok());
                let found = at.and_then(|at| items.get(at).cloned());
                Some(found.ok_or("index out of range")?)
            }
            (Some(Value::Object(map)), Some(Value::String(name))) => map.get(name).cloned(),
            _ => None,
        };
    }
    Ok(value)
}

/// `%s`, `%v`, `%d`, `%q` and `%%`; widths as in `%-10s`.
fn printf(arguments: &[Option<Value>]) -> Answer {
    let Some((Some(Value::String(format)), values)) = arguments.split_first() else {
        return Err("printf wants a format".to_owned());
    };
    let (mut out, mut values) = (String::new(), values.iter());
    let mut rest = format.as_str();
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        let (width, verb) = (&rest[..end], rest[end..].chars().next());
        rest = &rest[end + verb.map_or(0, char::len_utf8)..];
        if verb == Some('%') {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or("printf has too few arguments")?;
        let text = match verb {
            Some('q') => format!("{:?}", shown(value.as_ref())),
            _ => shown(value.as_ref()),
        };
        let size: usize = width.trim_start_matches('-').parse().unwrap_or(0);
        out.push_str(&if width.starts_with('-') {
            format!("{text:<size$}")
        } else {
            format!("{text:>size$}")
        });
    }
    out.push_str(rest);
    Ok(Some(out.into()))
}
