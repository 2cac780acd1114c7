//! Functions on texts. Lengths and positions count characters.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;

use super::argument;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::matching::{self, Cursor};
use crate::value::Value;

type Answer = Result<Value, Error>;

pub fn string(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let value = argument(arguments, 0);
    if value.is_undefined() {
        return Ok(Value::Undefined);
    }
    let text = crate::json::string(evaluator, value, argument(arguments, 1).is_true())?;
    evaluator.text(text)
}

pub fn substring(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let characters: Vec<char> = text.chars().collect();
    let length = characters.len() as f64;
    let mut start = argument(arguments, 1).as_number().unwrap_or(0.0);
    if length + start < 0.0 {
        start = 0.0;
    }
    let begin = if start < 0.0 { length + start } else { start };
    let end = match argument(arguments, 2) {
        Value::Number(count) if *count <= 0.0 => return Ok(Value::text("")),
        // As JavaScript slices: a negative end counts from the back.
        Value::Number(count) => {
            if start >= 0.0 {
                start + count
            } else {
                length + start + count
            }
        }
        _ => length,
    };
    let place = |at: f64| at.clamp(0.0, length) as usize;
    let (begin, end) = (place(begin.trunc()), place(end.trunc()));
    let part: String = characters.get(begin..end.max(begin)).unwrap_or_default().iter().collect();
    evaluator.text(part)
}

pub fn substring_before(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let separator = argument(arguments, 1).as_text().cloned().unwrap_or_else(|| Rc::from("undefined"));
    match text.find(&*separator) {
        Some(at) => evaluator.text(text[..at].to_owned()),
        None => Ok(Value::String(text.clone())),
    }
}

pub fn substring_after(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let separator = argument(arguments, 1).as_text().cloned().unwrap_or_else(|| Rc::from("undefined"));
    match text.find(&*separator) {
        Some(at) => evaluator.text(text[at + separator.len()..].to_owned()),
        None => Ok(Value::String(text.clone())),
    }
}

pub fn lowercase(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => evaluator.text(text.to_lowercase()),
        _ => Ok(Value::Undefined),
    }
}

pub fn uppercase(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => evaluator.text(text.to_uppercase()),
        _ => Ok(Value::Undefined),
    }
}

pub fn length(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => Ok(Value::Number(text.chars().count() as f64)),
        _ => Ok(Value::Undefined),
    }
}

pub fn trim(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => {
            let words: Vec<&str> =
                text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()).collect();
            evaluator.text(words.join(" "))
        }
        _ => Ok(Value::Undefined),
    }
}

pub fn pad(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let width = argument(arguments, 1).as_number().unwrap_or(0.0);
    let filler = match argument(arguments, 2) {
        Value::String(filler) if !filler.is_empty() => filler.clone(),
        _ => Rc::from(" "),
    };
    let missing = (width.abs() - text.chars().count() as f64).max(0.0);
    evaluator.spend((missing as usize).saturating_mul(4))?;
    let padding: String = filler.chars().cycle().take(missing as usize).collect();
    evaluator.text(if width < 0.0 { format!("{padding}{text}") } else { format!("{text}{padding}") })
}

pub fn matches(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let most = limit(argument(arguments, 2), "D3040", "Third argument of match")?;
    let mut found = Vec::new();
    for one in matching::matches(evaluator, argument(arguments, 1), text, most, "match")? {
        found.push(Value::object(IndexMap::from([
            (Rc::from("match"), Value::String(one.text)),
            (Rc::from("index"), Value::Number(one.start as f64)),
            (Rc::from("groups"), Value::array(one.groups)),
        ])));
    }
    evaluator.sequence(found)
}

fn limit(value: &Value, code: &str, which: &str) -> Result<usize, Error> {
    match value {
        Value::Number(limit) if *limit < 0.0 => {
            Err(Error::new(code, format!("{which} function must evaluate to a positive number")))
        }
        Value::Number(limit) => Ok(limit.ceil() as usize),
        _ => Ok(usize::MAX),
    }
}

pub fn contains(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    Ok(Value::Boolean(match argument(arguments, 1) {
        Value::String(part) => text.contains(&**part),
        Value::Undefined => return Ok(Value::Undefined),
        matcher => {
            let found =
                evaluator.apply(matcher, vec![Value::String(text.clone())], &Value::Undefined, None)?;
            !found.is_undefined()
        }
    }))
}

pub fn replace(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let (pattern, replacement) = (argument(arguments, 1), argument(arguments, 2));
    if matches!(pattern, Value::String(pattern) if pattern.is_empty()) {
        return Err(Error::new("D3010", "Second argument of replace function cannot be an empty string"));
    }
    let most = limit(argument(arguments, 3), "D3011", "Fourth argument of replace")?;
    let mut out = String::new();
    let mut from = 0;
    if let Value::String(pattern) = pattern {
        let Value::String(replacement) = replacement else {
            return Err(Error::new("T0410", "Argument 3 of function \"replace\" must be a string"));
        };
        for _ in 0..most {
            let Some(at) = text[from..].find(&**pattern) else { break };
            evaluator.step()?;
            evaluator.spend(replacement.len() + at)?;
            out.push_str(&text[from..from + at]);
            out.push_str(replacement);
            from += at + pattern.len();
        }
        out.push_str(&text[from..]);
        return evaluator.text(out);
    }
    let mut cursor = Cursor::new(text);
    for one in matching::matches(evaluator, pattern, text, most, "replace")? {
        let (start, end) = (cursor.byte_at(one.start), cursor.byte_at(one.end));
        if start < from {
            continue;
        }
        out.push_str(&text[from..start]);
        let replaced = match replacement {
            Value::String(template) => expand(template, &one),
            function => {
                let found = Value::object(IndexMap::from([
                    (Rc::from("match"), Value::String(one.text.clone())),
                    (Rc::from("start"), Value::Number(one.start as f64)),
                    (Rc::from("end"), Value::Number(one.end as f64)),
                    (Rc::from("groups"), Value::array(one.groups.clone())),
                ]));
                match evaluator.apply(function, vec![found], &Value::Undefined, None)? {
                    Value::String(replaced) => replaced.to_string(),
                    _ => {
                        return Err(Error::new(
                            "D3012",
                            "Attempted to replace a matched string with a non-string value",
                        ));
                    }
                }
            }
        };
        evaluator.spend(replaced.len() + start - from)?;
        out.push_str(&replaced);
        from = end;
    }
    out.push_str(&text[from..]);
    evaluator.text(out)
}

/// `$0` is the match, `$1` the first group, `$$` a dollar.
fn expand(template: &str, found: &matching::Match) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            out.push('$');
            continue;
        }
        if rest.starts_with('0') {
            out.push_str(&found.text);
            rest = &rest[1..];
            continue;
        }
        // As many digits as there are groups to number.
        let most = found.groups.len().max(1).to_string().len().min(digits);
        let mut taken = most;
        let mut index: usize = rest[..taken].parse().unwrap_or(usize::MAX);
        if most > 1 && index > found.groups.len() {
            taken = most - 1;
            index = rest[..taken].parse().unwrap_or(usize::MAX);
        }
        if let Some(Value::String(group)) = found.groups.get(index.wrapping_sub(1)) {
            out.push_str(group);
        }
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

pub fn split(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let most = limit(argument(arguments, 2), "D3020", "Third argument of split")?;
    let mut parts: Vec<Value> = Vec::new();
    match argument(arguments, 1) {
        Value::String(separator) if separator.is_empty() => {
            evaluator.spend_items(text.len() * 2)?;
            parts.extend(text.chars().take(most).map(|character| Value::text(character.to_string())));
        }
        Value::String(separator) => {
            evaluator.spend(text.len())?;
            let most = argument(arguments, 2).as_number().map_or(usize::MAX, |most| most.floor() as usize);
            parts.extend(text.split(&**separator).take(most).map(Value::text));
        }
        matcher => {
            let mut from = 0;
            let mut cursor = Cursor::new(text);
            for one in matching::matches(evaluator, matcher, text, usize::MAX, "split")? {
                if parts.len() >= most {
                    break;
                }
                let (start, end) = (cursor.byte_at(one.start), cursor.byte_at(one.end));
                parts.push(Value::text(&text[from..start.max(from)]));
                from = end;
            }
            if parts.len() < most {
                parts.push(Value::text(&text[from..]));
            }
        }
    }
    evaluator.spend_items(parts.len())?;
    Ok(Value::array(parts))
}

pub fn join(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::Array(parts) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let separator = argument(arguments, 1).as_text().cloned().unwrap_or_else(|| Rc::from(""));
    let texts: Vec<&str> = parts.items.iter().filter_map(|part| part.as_text().map(|text| &**text)).collect();
    let length = texts.iter().map(|text| text.len()).sum::<usize>();
    evaluator.spend(length.saturating_add(separator.len().saturating_mul(texts.len())))?;
    Ok(Value::text(texts.join(&separator)))
}

pub fn base64_encode(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => evaluator.text(STANDARD.encode(text.as_bytes())),
        _ => Ok(Value::Undefined),
    }
}

pub fn base64_decode(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => {
            let bytes = STANDARD.decode(text.trim()).unwrap_or_default();
            evaluator.text(String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => Ok(Value::Undefined),
    }
}

const UNRESERVED: &str = "-_.!~*'()";
const RESERVED: &str = ";/?:@&=+$,#";

fn encode(text: &str, keep: &[&str]) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || keep.iter().any(|kept| kept.contains(character)) {
            out.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

/// `kept` characters stay encoded.
fn decode(text: &str, kept: &str, name: &str) -> Result<String, Error> {
    let malformed = || Error::new("D3140", format!("Malformed URL passed to ${name}(): \"{text}\""));
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digits =
            after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(malformed)?;
        let byte = u8::from_str_radix(digits, 16).map_err(|_| malformed())?;
        if kept.as_bytes().contains(&byte) {
            bytes.extend_from_slice(&rest[..3]);
        } else {
            bytes.push(byte);
        }
        rest = &rest[3..];
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

pub fn encode_url_component(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) if text.contains(char::REPLACEMENT_CHARACTER) => {
            Err(Error::new("D3140", "Malformed URL passed to $encodeUrlComponent()"))
        }
        Value::String(text) => evaluator.text(encode(text, &[UNRESERVED])),
        _ => Ok(Value::Undefined),
    }
}

pub fn encode_url(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) if text.contains(char::REPLACEMENT_CHARACTER) => {
            Err(Error::new("D3140", "Malformed URL passed to $encodeUrl()"))
        }
        Value::String(text) => evaluator.text(encode(text, &[UNRESERVED, RESERVED])),
        _ => Ok(Value::Undefined),
    }
}

pub fn decode_url_component(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => decode(text, "", "decodeUrlComponent").and_then(|text| evaluator.text(text)),
        _ => Ok(Value::Undefined),
    }
}

pub fn decode_url(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::String(text) => decode(text, RESERVED, "decodeUrl").and_then(|text| evaluator.text(text)),
        _ => Ok(Value::Undefined),
    }
}
