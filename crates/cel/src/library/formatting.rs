//! `'%s has %d'.format([name, count])`

use super::strings::within;
use super::{Evaluated, Site, conversions, duration, mismatch};
use crate::error::EvalError;
use crate::value::Value;

const DEFAULT_PRECISION: usize = 6;
/// More digits behind the point than any double has.
const LARGEST_PRECISION: usize = 1000;

pub fn format<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (Value::String(pattern), Value::List(values)) = (&args[0], &args[1]) else { return mismatch() };
    let mut found = String::new();
    let mut rest = pattern.chars();
    let mut next = 0;
    while let Some(character) = rest.next() {
        if character != '%' {
            found.push(character);
            continue;
        }
        let mut directive = rest.next().ok_or_else(|| failed("unexpected end of string"))?;
        if directive == '%' {
            found.push('%');
            continue;
        }
        let mut precision = None;
        if directive == '.' {
            let digits: String = rest.as_str().chars().take_while(char::is_ascii_digit).collect();
            rest = rest.as_str()[digits.len()..].chars();
            precision = Some(digits.parse().map_err(|_| failed("error while parsing precision"))?);
            directive = rest.next().ok_or_else(|| failed("unexpected end of string"))?;
        }
        let value = values.get(next).ok_or_else(|| failed(&format!("index {next} out of range")))?;
        next += 1;
        found.push_str(&one(directive, precision, &value)?);
        within(found.len())?;
    }
    Ok(found.into())
}

fn failed(why: &str) -> EvalError {
    EvalError::failed(format!("could not parse formatting string: {why}"))
}

fn one(directive: char, precision: Option<usize>, value: &Value) -> Result<String, EvalError> {
    let precision = precision.unwrap_or(DEFAULT_PRECISION).min(LARGEST_PRECISION);
    let unsupported = |clause: &str, allowed: &str| {
        let name = value.type_name();
        failed(&format!(
            "error during formatting: {clause} clause can only be used on {allowed}, was given {name}"
        ))
    };
    Ok(match (directive, value) {
        ('s', _) => text(value, false)?,
        ('d', Value::Int(number)) => number.to_string(),
        ('d', Value::Uint(number)) => number.to_string(),
        ('d', Value::Double(number)) if number.is_nan() || number.is_infinite() => special(*number),
        ('d', _) => return Err(unsupported("decimal", "integers")),
        ('f' | 'e', Value::Int(_) | Value::Uint(_) | Value::Double(_)) => real(directive, precision, value),
        ('f', _) => return Err(unsupported("fixed-point", "doubles")),
        ('e', _) => return Err(unsupported("scientific", "doubles")),
        ('b', Value::Int(number)) if *number < 0 => format!("-{:b}", number.unsigned_abs()),
        ('b', Value::Int(number)) => format!("{number:b}"),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', _) => return Err(unsupported("binary", "integers and bools")),
        ('o', Value::Int(number)) if *number < 0 => format!("-{:o}", number.unsigned_abs()),
        ('o', Value::Int(number)) => format!("{number:o}"),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('o', _) => return Err(unsupported("octal", "integers")),
        ('x' | 'X', _) => {
            let digits = hexadecimal(value)
                .ok_or_else(|| unsupported("hex", "integers, byte buffers, and strings"))?;
            if directive == 'X' { digits.to_uppercase() } else { digits }
        }
        (other, _) => return Err(failed(&format!("unrecognized formatting clause \"{other}\""))),
    })
}

fn hexadecimal(value: &Value) -> Option<String> {
    let of_bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(match value {
        Value::Int(number) if *number < 0 => format!("-{:x}", number.unsigned_abs()),
        Value::Int(number) => format!("{number:x}"),
        Value::Uint(number) => format!("{number:x}"),
        Value::String(text) => of_bytes(text.as_bytes()),
        Value::Bytes(bytes) => of_bytes(bytes),
        _ => return None,
    })
}

fn real(directive: char, precision: usize, value: &Value) -> String {
    let number = match value {
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::Double(number) => *number,
        _ => f64::NAN,
    };
    if !number.is_finite() {
        return special(number);
    }
    if directive == 'f' {
        return format!("{number:.precision$}");
    }
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let raised = format!("{}{:02}", if exponent < 0 { "-" } else { "" }, exponent.abs());
    format!("{digits}\u{d7}10{}", raised.chars().map(superscript).collect::<String>())
}

fn superscript(character: char) -> char {
    match character {
        '-' => '\u{207b}',
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
    }
}

fn special(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number > 0.0 {
        "Infinity".to_owned()
    } else {
        "-Infinity".to_owned()
    }
}

fn text(value: &Value, nested: bool) -> Result<String, EvalError> {
    Ok(match value {
        Value::String(text) if nested => format!("\"{}\"", &**text),
        Value::Bytes(bytes) if nested => format!("b\"{}\"", String::from_utf8_lossy(bytes)),
        Value::Duration(nanoseconds) if nested => {
            format!("duration(\"{}\")", duration::to_text(*nanoseconds))
        }
        Value::Timestamp(time) if nested => format!("timestamp(\"{time}\")"),
        Value::Double(number) if nested && number.is_finite() => format!("{number:.DEFAULT_PRECISION$}"),
        Value::Double(number) if nested => format!("\"{}\"", conversions::shortest(*number)),
        Value::Double(number) if !number.is_finite() => special(*number),
        Value::Double(number) => conversions::shortest(*number),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Duration(nanoseconds) => duration::to_text(*nanoseconds),
        Value::Timestamp(time) => time.to_string(),
        Value::List(list) => {
            let parts: Result<Vec<_>, _> = list.iter().map(|value| text(&value, true)).collect();
            format!("[{}]", parts?.join(", "))
        }
        Value::Map(map) => {
            let parts = map.iter().map(|(key, value)| Ok((text(&key, true)?, text(&value, true)?)));
            let mut parts = parts.collect::<Result<Vec<_>, EvalError>>()?;
            parts.sort();
            let parts: Vec<String> = parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::String(_) | Value::Type(_) => {
            value.to_string()
        }
        other => {
            return Err(failed(&format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps, was given {}",
                other.type_name()
            )));
        }
    })
}
