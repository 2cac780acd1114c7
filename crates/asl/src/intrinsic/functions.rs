//! What each function does. Results are bounded: no argument makes a list or a text beyond AWS' limits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::Digest as _;

use super::Function;
use crate::random::Random;
use crate::values::{equal, integer};

/// AWS' bounds.
const LONGEST_TEXT: usize = 10_000;
const LONGEST_RANGE: i64 = 1_000;

pub(super) fn call(function: Function, arguments: &[Value], random: &mut Random) -> Result<Value, String> {
    match function {
        Function::Format => format(arguments),
        Function::StringToJson => string_to_json(&arguments[0]),
        Function::JsonToString => Ok(Value::String(arguments[0].to_string())),
        Function::Array => Ok(Value::Array(arguments.to_vec())),
        Function::ArrayPartition => partition(&arguments[0], &arguments[1]),
        Function::ArrayContains => {
            let items = array(&arguments[0])?;
            Ok(items.iter().any(|item| equal(item, &arguments[1])).into())
        }
        Function::ArrayRange => range(&arguments[0], &arguments[1], &arguments[2]),
        Function::ArrayGetItem => {
            let items = array(&arguments[0])?;
            let index = integer(&arguments[1]).ok_or("the index must be an integer")?;
            usize::try_from(index)
                .ok()
                .and_then(|index| items.get(index).cloned())
                .ok_or_else(|| "the index is out of bounds".to_owned())
        }
        Function::ArrayLength => Ok(array(&arguments[0])?.len().into()),
        Function::ArrayUnique => unique(&arguments[0]),
        Function::Base64Encode => {
            let text = text(&arguments[0])?;
            if text.len() > LONGEST_TEXT {
                return Err(format!("the text is longer than {LONGEST_TEXT} characters"));
            }
            Ok(STANDARD.encode(text).into())
        }
        Function::Base64Decode => {
            let bytes = STANDARD.decode(text(&arguments[0])?).map_err(|_| "the text is not Base64")?;
            String::from_utf8(bytes).map(Value::String).map_err(|_| "the decoded bytes are no text".into())
        }
        Function::Hash => hash(&arguments[0], &arguments[1]),
        Function::JsonMerge => merge(arguments),
        Function::MathRandom => math_random(arguments, random),
        Function::MathAdd => math_add(&arguments[0], &arguments[1]),
        Function::StringSplit => string_split(&arguments[0], &arguments[1]),
        Function::Uuid => Ok(random.uuid().into()),
    }
}

fn array(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or_else(|| "the argument must be an array".to_owned())
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "the argument must be a string".to_owned())
}

/// Replaces each `{}`; `\{` and `\}` stand for braces.
fn format(arguments: &[Value]) -> Result<Value, String> {
    let template = text(&arguments[0])?;
    let mut values = arguments[1..].iter();
    let mut out = String::new();
    let mut characters = template.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('{' | '}' | '\\')) => out.push(escaped),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '{' if characters.peek() == Some(&'}') => {
                characters.next();
                let value = values.next().ok_or("there are more {} than arguments")?;
                java_text(value, &mut out);
            }
            '{' | '}' => return Err("matching '}' not found for '{'".into()),
            character => out.push(character),
        }
    }
    if values.next().is_some() {
        return Err("there are more arguments than {}".into());
    }
    Ok(out.into())
}

/// A value as Java's collections write themselves: `{a=1, b=[]}`.
fn java_text(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                java_text(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (at, (key, item)) in object.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(key);
                out.push('=');
                java_text(item, out);
            }
            out.push('}');
        }
        value => out.push_str(&value.to_string()),
    }
}

fn string_to_json(value: &Value) -> Result<Value, String> {
    let text = text(value)?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("the text is not JSON: {error}"))?;
    // -0 is 0 for Jackson.
    Ok(if value.as_f64() == Some(0.0) && !text.contains('.') { 0.into() } else { value })
}

/// `items` in lists of `size`.
pub fn partition(items: &Value, size: &Value) -> Result<Value, String> {
    let items = array(items)?;
    let size = size.as_f64().ok_or("the chunk size must be a number")?.round_half_up();
    if size <= 0 {
        return Err("the chunk size must be positive".into());
    }
    Ok(items.chunks(size as usize).map(|chunk| Value::Array(chunk.to_vec())).collect())
}

/// First, first + step, … up to and with last.
pub fn range(first: &Value, last: &Value, step: &Value) -> Result<Value, String> {
    let whole =
        |value: &Value| value.as_f64().map(RoundHalfUp::round_half_up).ok_or("a range is made of numbers");
    let (first, last, step) = (whole(first)?, whole(last)?, whole(step)?);
    if step == 0 {
        return Err("the increment cannot be zero".into());
    }
    let span = last.checked_sub(first).ok_or("the range is too long")?;
    let count = if span.signum() * step.signum() < 0 { 0 } else { span / step + 1 };
    if count > LONGEST_RANGE {
        return Err(format!("the range has more than {LONGEST_RANGE} items"));
    }
    Ok((0..count).map(|at| Value::from(first + at * step)).collect())
}

fn unique(items: &Value) -> Result<Value, String> {
    let mut seen: Vec<Value> = Vec::new();
    for item in array(items)? {
        if !seen.iter().any(|other| equal(other, item)) {
            seen.push(item.clone());
        }
    }
    Ok(Value::Array(seen))
}

/// The hash of a text (or of a value's JSON) in hexadecimal.
pub fn hash(data: &Value, algorithm: &Value) -> Result<Value, String> {
    let data = match data {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    if data.len() > LONGEST_TEXT {
        return Err(format!("the data is longer than {LONGEST_TEXT} characters"));
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(match algorithm.as_str() {
        Some("MD5") => hex(&md5::Md5::digest(&data)),
        Some("SHA-1") => hex(&sha1::Sha1::digest(&data)),
        Some("SHA-256") => hex(&sha2::Sha256::digest(&data)),
        Some("SHA-384") => hex(&sha2::Sha384::digest(&data)),
        Some("SHA-512") => hex(&sha2::Sha512::digest(&data)),
        _ => return Err("the algorithm must be one of MD5, SHA-1, SHA-256, SHA-384, SHA-512".into()),
    }
    .into())
}

fn merge(arguments: &[Value]) -> Result<Value, String> {
    let object = |value: &Value| value.as_object().cloned().ok_or("the first two arguments must be objects");
    let (mut first, second): (Map<String, Value>, _) = (object(&arguments[0])?, object(&arguments[1])?);
    if arguments[2] != Value::Bool(false) {
        return Err("deep merging is not supported: the third argument must be false".into());
    }
    first.extend(second);
    Ok(Value::Object(first))
}

fn math_random(arguments: &[Value], random: &mut Random) -> Result<Value, String> {
    let whole =
        |value: &Value| value.as_f64().map(RoundHalfUp::round_half_up).ok_or("the arguments must be numbers");
    let (start, end) = (whole(&arguments[0])?, whole(&arguments[1])?);
    if end <= start {
        return Err("the end must be greater than the start".into());
    }
    Ok(match arguments.get(2) {
        Some(seed) => Random::new(whole(seed)? as u64).between(start, end),
        None => random.between(start, end),
    }
    .into())
}

fn math_add(a: &Value, b: &Value) -> Result<Value, String> {
    let whole =
        |value: &Value| value.as_f64().map(RoundHalfUp::round_half_up).ok_or("the arguments must be numbers");
    whole(a)?.checked_add(whole(b)?).map(Value::from).ok_or_else(|| "the sum is too large".into())
}

/// Splits at any of the separator's characters; empty parts are left out.
fn string_split(value: &Value, separators: &Value) -> Result<Value, String> {
    let (value, separators) = (text(value)?, text(separators)?);
    if separators.is_empty() {
        return Ok(Value::Array(vec![value.into()]));
    }
    Ok(value.split(|c| separators.contains(c)).filter(|part| !part.is_empty()).map(Value::from).collect())
}

trait RoundHalfUp {
    fn round_half_up(self) -> i64;
}

impl RoundHalfUp for f64 {
    /// Java's Math.round.
    fn round_half_up(self) -> i64 {
        (self + 0.5).floor() as i64
    }
}
