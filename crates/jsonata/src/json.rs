//! To JSON and to text.

use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::value::{Value, fifteen_digits, number_text};

/// Deeper values are refused: nothing could read them.
const DEEPEST: usize = 512;

/// JSON of a value, or nothing where there is none. Functions within are left out.
pub fn to_json(value: &Value, depth: usize) -> Result<Option<serde_json::Value>, Error> {
    use serde_json::Value as Json;
    if depth > DEEPEST {
        return Err(Error::new("U1002", format!("The value nests deeper than {DEEPEST}")));
    }
    Ok(Some(match value {
        Value::Undefined | Value::Function(_) | Value::Tail(_) => return Ok(None),
        Value::Null => Json::Null,
        Value::Boolean(value) => Json::Bool(*value),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 9e15 => Json::from(*number as i64),
        Value::Number(number) => serde_json::Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(text.to_string()),
        Value::Array(array) => Json::Array(
            array
                .items
                .iter()
                .map(|item| Ok(to_json(item, depth + 1)?.unwrap_or(Json::Null)))
                .collect::<Result<_, Error>>()?,
        ),
        Value::Object(object) => {
            let mut fields = serde_json::Map::new();
            for (key, value) in &object.0 {
                if let Some(value) = to_json(value, depth + 1)? {
                    fields.insert(key.to_string(), value);
                }
            }
            Json::Object(fields)
        }
    }))
}

/// How many bytes a JSON value costs, roughly.
pub fn size(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => 24 + text.len(),
        serde_json::Value::Array(items) => items.iter().map(size).sum::<usize>() + 24,
        serde_json::Value::Object(object) => {
            object.iter().map(|(key, value)| 48 + key.len() + size(value)).sum::<usize>() + 24
        }
        _ => 24,
    }
}

/// A value as text, as `$string` and `&` have it.
pub fn string(evaluator: &mut Evaluator, value: &Value, pretty: bool) -> Result<String, Error> {
    match value {
        Value::Undefined | Value::Function(_) | Value::Tail(_) => Ok(String::new()),
        Value::String(text) => Ok(text.to_string()),
        Value::Number(number) if !number.is_finite() => {
            Err(Error::new("D3001", "Attempting to invoke string function on Infinity or NaN"))
        }
        value => {
            let mut out = String::new();
            write(evaluator, value, pretty, 0, &mut out)?;
            Ok(out)
        }
    }
}

fn write(
    evaluator: &mut Evaluator,
    value: &Value,
    pretty: bool,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::new("U1002", format!("The value nests deeper than {DEEPEST}")));
    }
    evaluator.step()?;
    let before = out.len();
    let line = |out: &mut String, depth: usize| {
        if pretty {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
    };
    match value {
        Value::Null => out.push_str("null"),
        Value::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) if !number.is_finite() => {
            return Err(Error::new("D1001", format!("Number out of range: {number}")));
        }
        Value::Number(number) => out.push_str(&number_text(fifteen_digits(*number))),
        Value::String(text) => out.push_str(&serde_json::Value::from(&**text).to_string()),
        Value::Undefined | Value::Function(_) | Value::Tail(_) => out.push_str("\"\""),
        Value::Array(array) => {
            out.push('[');
            for (at, item) in array.items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(out, depth + 1);
                write(evaluator, item, pretty, depth + 1, out)?;
            }
            if !array.items.is_empty() {
                line(out, depth);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (at, (key, item)) in object.0.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(out, depth + 1);
                out.push_str(&serde_json::Value::from(&**key).to_string());
                out.push_str(if pretty { ": " } else { ":" });
                write(evaluator, item, pretty, depth + 1, out)?;
            }
            if !object.0.is_empty() {
                line(out, depth);
            }
            out.push('}');
        }
    }
    if !matches!(value, Value::Array(_) | Value::Object(_)) {
        evaluator.spend(out.len() - before)?;
    }
    Ok(())
}
