//! From one type to another: `int('3')`, `string(1.5)`, `timestamp('2025-01-01T00:00:00Z')`.

use jiff::Timestamp;

use super::{Evaluated, Row, Site, duration, mismatch, shared_type};
use crate::error::EvalError;
use crate::value::Value;

pub const TABLE: &[Row] = &[
    ("bool_to_bool", "bool(bool) -> bool", same),
    ("string_to_bool", "bool(string) -> bool", to_bool),
    ("bytes_to_bytes", "bytes(bytes) -> bytes", same),
    ("string_to_bytes", "bytes(string) -> bytes", |_, args| match &args[0] {
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => mismatch(),
    }),
    ("double_to_double", "double(double) -> double", same),
    ("int64_to_double", "double(int) -> double", to_double),
    ("string_to_double", "double(string) -> double", to_double),
    ("uint64_to_double", "double(uint) -> double", to_double),
    ("duration_to_duration", "duration(duration) -> duration", same),
    ("int64_to_duration", "duration(int) -> duration", to_duration),
    ("string_to_duration", "duration(string) -> duration", to_duration),
    ("to_dyn", "dyn(A) -> dyn", same),
    ("int64_to_int64", "int(int) -> int", same),
    ("double_to_int64", "int(double) -> int", to_int),
    ("duration_to_int64", "int(duration) -> int", to_int),
    ("string_to_int64", "int(string) -> int", to_int),
    ("timestamp_to_int64", "int(timestamp) -> int", to_int),
    ("uint64_to_int64", "int(uint) -> int", to_int),
    ("string_to_string", "string(string) -> string", same),
    ("bool_to_string", "string(bool) -> string", to_string),
    ("bytes_to_string", "string(bytes) -> string", to_string),
    ("double_to_string", "string(double) -> string", to_string),
    ("duration_to_string", "string(duration) -> string", to_string),
    ("int64_to_string", "string(int) -> string", to_string),
    ("timestamp_to_string", "string(timestamp) -> string", to_string),
    ("uint64_to_string", "string(uint) -> string", to_string),
    ("timestamp_to_timestamp", "timestamp(timestamp) -> timestamp", same),
    ("int64_to_timestamp", "timestamp(int) -> timestamp", to_timestamp),
    ("string_to_timestamp", "timestamp(string) -> timestamp", to_timestamp),
    ("uint64_to_uint64", "uint(uint) -> uint", same),
    ("double_to_uint64", "uint(double) -> uint", to_uint),
    ("int64_to_uint64", "uint(int) -> uint", to_uint),
    ("string_to_uint64", "uint(string) -> uint", to_uint),
    ("type", "type(A) -> type(A)", |_, args| Ok(shared_type(args[0].type_name()))),
];

/// Whether a constant argument makes the call a constant.
pub const FOLDED: [&str; 9] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"];

fn same<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(args[0].clone())
}

fn to_bool<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let Value::String(text) = &args[0] else { return mismatch() };
    match &**text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        other => Err(EvalError::failed(format!("type conversion error from 'string' to 'bool': {other:?}"))),
    }
}

fn to_double<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => match text.parse() {
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => Err(syntax("ParseFloat", text)),
        },
        _ => mismatch(),
    }
}

fn to_duration<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        Value::Int(nanoseconds) => Ok(Value::Duration(*nanoseconds)),
        Value::String(text) => match duration::parse(text) {
            Some(nanoseconds) => Ok(Value::Duration(nanoseconds)),
            None => Err(EvalError::failed(format!("time: invalid duration \"{}\"", &**text))),
        },
        _ => mismatch(),
    }
}

fn to_int<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        // The ends of the range have no exact double, and are refused.
        Value::Double(number) if *number > i64::MIN as f64 && *number < i64::MAX as f64 => {
            Ok(Value::Int(*number as i64))
        }
        Value::Double(_) => Err(EvalError::failed("integer overflow")),
        Value::Uint(number) => match i64::try_from(*number) {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => Err(EvalError::failed("integer overflow")),
        },
        Value::String(text) => text.parse().map(Value::Int).map_err(|_| syntax("ParseInt", text)),
        Value::Timestamp(time) => Ok(Value::Int(time.as_second())),
        Value::Duration(nanoseconds) => Ok(Value::Int(*nanoseconds)),
        _ => mismatch(),
    }
}

fn to_uint<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        Value::Double(number) if *number >= 0.0 && *number < u64::MAX as f64 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(EvalError::failed("unsigned integer overflow")),
        Value::Int(number) => match u64::try_from(*number) {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => Err(EvalError::failed("unsigned integer overflow")),
        },
        Value::String(text) => text.parse().map(Value::Uint).map_err(|_| syntax("ParseUint", text)),
        _ => mismatch(),
    }
}

fn to_string<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match &args[0] {
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned().into(),
            Err(_) => return Err(EvalError::failed("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Duration(nanoseconds) => duration::to_text(*nanoseconds).into(),
        Value::Timestamp(time) => time.to_string().into(),
        Value::Double(number) => shortest(*number).into(),
        other => other.to_string().into(),
    })
}

/// A double as Go's shortest form shows it: with an exponent where it is very large or very small.
pub fn shortest(number: f64) -> String {
    let magnitude = number.abs();
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    number.to_string()
}

fn to_timestamp<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match &args[0] {
        Value::Int(seconds) => match Timestamp::from_second(*seconds) {
            Ok(time) => from_year_one(time),
            Err(_) => Err(EvalError::failed("timestamp overflow")),
        },
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(time) => from_year_one(time),
            Err(_) => Err(EvalError::failed(format!("cannot parse {:?} as a timestamp", &**text))),
        },
        _ => mismatch(),
    }
}

/// Times begin with the year 1.
pub fn from_year_one<'a>(time: Timestamp) -> Evaluated<'a> {
    const BEGINNING: i64 = -62_135_596_800;
    if time.as_second() < BEGINNING {
        return Err(EvalError::failed("timestamp overflow"));
    }
    Ok(Value::Timestamp(time))
}

fn syntax(function: &str, text: &str) -> EvalError {
    EvalError::failed(format!("strconv.{function}: parsing {text:?}: invalid syntax"))
}
