//! Strings: the standard functions and the extensions. Places and lengths are counted in characters.

use super::{Evaluated, Row, Site, formatting, mismatch};
use crate::error::EvalError;
use crate::value::Value;

/// No text that an expression makes is longer, in bytes: to read it would cost more than an expression may.
const LONGEST: usize = 10 * 1024 * 1024;

pub const TABLE: &[Row] = &[
    ("contains_string", "string::contains(string) -> bool", |_, args| {
        test(args, |text, part| text.contains(part))
    }),
    ("starts_with_string", "string::startsWith(string) -> bool", |_, args| {
        test(args, |text, part| text.starts_with(part))
    }),
    ("ends_with_string", "string::endsWith(string) -> bool", |_, args| {
        test(args, |text, part| text.ends_with(part))
    }),
    ("string_char_at_int", "string::charAt(int) -> string", char_at),
    ("string_index_of_string", "string::indexOf(string) -> int", index_of),
    ("string_index_of_string_int", "string::indexOf(string, int) -> int", index_of),
    ("string_last_index_of_string", "string::lastIndexOf(string) -> int", last_index_of),
    ("string_last_index_of_string_int", "string::lastIndexOf(string, int) -> int", last_index_of),
    ("string_lower_ascii", "string::lowerAscii() -> string", |_, args| map(args, str::to_ascii_lowercase)),
    ("string_upper_ascii", "string::upperAscii() -> string", |_, args| map(args, str::to_ascii_uppercase)),
    ("string_replace_string_string", "string::replace(string, string) -> string", replace),
    ("string_replace_string_string_int", "string::replace(string, string, int) -> string", replace),
    ("string_split_string", "string::split(string) -> list(string)", split),
    ("string_split_string_int", "string::split(string, int) -> list(string)", split),
    ("string_substring_int", "string::substring(int) -> string", substring),
    ("string_substring_int_int", "string::substring(int, int) -> string", substring),
    ("string_trim", "string::trim() -> string", |_, args| map(args, |text| text.trim().to_owned())),
    ("string_reverse", "string::reverse() -> string", |_, args| {
        map(args, |text| text.chars().rev().collect())
    }),
    ("string_format", "string::format(list(dyn)) -> string", formatting::format),
    ("strings_quote", "strings.quote(string) -> string", |_, args| map(args, quote)),
    ("list_join", "list(string)::join() -> string", join),
    ("list_join_string", "list(string)::join(string) -> string", join),
    ("string_jsonpatch_escapeKey_string", "jsonpatch.escapeKey(string) -> string", |_, args| {
        map(args, |key| key.replace('~', "~0").replace('/', "~1"))
    }),
];

fn test<'a>(args: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Evaluated<'a> {
    match (&args[0], &args[1]) {
        (Value::String(text), Value::String(part)) => Ok(Value::Bool(holds(text, part))),
        _ => mismatch(),
    }
}

fn map<'a>(args: &[Value<'a>], change: fn(&str) -> String) -> Evaluated<'a> {
    match &args[0] {
        Value::String(text) => Ok(change(text).into()),
        _ => mismatch(),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::failed(format!("index out of range: {index}"))
}

/// The place of the character in bytes; one past the last is a place.
fn byte_at(text: &str, index: i64) -> Result<usize, EvalError> {
    let wanted = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.nth(wanted).ok_or_else(|| out_of_range(index))
}

fn char_at<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return mismatch() };
    let at = byte_at(text, *index)?;
    Ok(text[at..].chars().take(1).collect::<String>().into())
}

fn index_of<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, *from),
        _ => return mismatch(),
    };
    if from < 0 {
        return Err(out_of_range(from));
    }
    if part.is_empty() {
        return Ok(Value::Int(from.min(text.chars().count() as i64)));
    }
    let Ok(start) = byte_at(text, from) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(match text[start..].find(&**part) {
        Some(at) => text[..start + at].chars().count() as i64,
        None => -1,
    }))
}

fn last_index_of<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, part, until) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(until)] => (text, part, Some(*until)),
        _ => return mismatch(),
    };
    let length = text.chars().count() as i64;
    if let Some(until) = until.filter(|until| *until < 0) {
        return Err(out_of_range(until));
    }
    if part.is_empty() {
        return Ok(Value::Int(until.unwrap_or(length).min(length)));
    }
    if until.is_some_and(|until| until >= length) {
        return Ok(Value::Int(-1));
    }
    let last = until.unwrap_or(length);
    let places = text.char_indices().map(|(at, _)| at).enumerate();
    let found = places.filter(|(index, at)| *index as i64 <= last && text[*at..].starts_with(&**part)).last();
    Ok(Value::Int(found.map_or(-1, |(index, _)| index as i64)))
}

fn replace<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, from, to, count) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(count)] => {
            (text, from, to, *count)
        }
        _ => return mismatch(),
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let replaced = text.matches(&**from).take(count).count();
    within(text.len().saturating_add(replaced.saturating_mul(to.len())))?;
    Ok(text.replacen(&**from, to, count).into())
}

/// The cost of what follows is by the result, and would be counted too late.
pub fn within(length: usize) -> Result<(), EvalError> {
    if length > LONGEST { Err(EvalError::CostLimit) } else { Ok(()) }
}

fn split<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, by, limit) = match args {
        [Value::String(text), Value::String(by)] => (text, by, -1),
        [Value::String(text), Value::String(by), Value::Int(limit)] => (text, by, *limit),
        _ => return mismatch(),
    };
    let parts: Vec<String> = match (limit, by.is_empty()) {
        (0, _) => Vec::new(),
        (1, _) => vec![text.to_string()],
        (..=-1, false) => text.split(&**by).map(str::to_owned).collect(),
        (..=-1, true) => text.chars().map(String::from).collect(),
        (limit, false) => text.splitn(limit.unsigned_abs() as usize, &**by).map(str::to_owned).collect(),
        (limit, true) => characters(text, limit.unsigned_abs() as usize),
    };
    Ok(Value::list(parts.into_iter().map(Value::from).collect()))
}

/// Single characters, the last part with all that is left.
fn characters(text: &str, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text.chars();
    while found.len() + 1 < limit {
        match rest.next() {
            Some(character) => found.push(character.to_string()),
            None => return found,
        }
    }
    if !rest.as_str().is_empty() {
        found.push(rest.as_str().to_owned());
    }
    found
}

fn substring<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text), Value::Int(start)] => Ok(text[byte_at(text, *start)?..].to_owned().into()),
        [Value::String(_), Value::Int(start), Value::Int(end)] if start > end => {
            Err(EvalError::failed(format!("invalid substring range. start: {start}, end: {end}")))
        }
        [Value::String(text), Value::Int(start), Value::Int(end)] => {
            Ok(text[byte_at(text, *start)?..byte_at(text, *end)?].to_owned().into())
        }
        _ => mismatch(),
    }
}

fn join<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (Value::List(list), between) = (&args[0], args.get(1)) else { return mismatch() };
    let between = match between {
        None => "",
        Some(Value::String(text)) => text,
        Some(_) => return mismatch(),
    };
    let mut found = String::new();
    for (index, value) in list.iter().enumerate() {
        let Value::String(text) = value else {
            return Err(EvalError::failed(format!("join: invalid input: {value}")));
        };
        if index > 0 {
            found.push_str(between);
        }
        found.push_str(&text);
        within(found.len())?;
    }
    Ok(found.into())
}

fn quote(text: &str) -> String {
    let mut found = String::from("\"");
    for character in text.chars() {
        match character {
            '\x07' => found.push_str("\\a"),
            '\x08' => found.push_str("\\b"),
            '\x0c' => found.push_str("\\f"),
            '\n' => found.push_str("\\n"),
            '\r' => found.push_str("\\r"),
            '\t' => found.push_str("\\t"),
            '\x0b' => found.push_str("\\v"),
            '\\' => found.push_str("\\\\"),
            '"' => found.push_str("\\\""),
            other => found.push(other),
        }
    }
    found.push('"');
    found
}
