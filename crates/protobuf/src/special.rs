//! Types whose JSON form is not that of their message.

use jiff::Timestamp;
use serde_json::{Number, Value};

use crate::Fault;
use crate::wire::Reader;

/// `metav1.Time`: seconds only. The zero time is a null.
pub(crate) fn time(bytes: &[u8]) -> Result<Value, Fault> {
    let (seconds, nanos) = seconds_and_nanos(bytes)?;
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    format_time(seconds, 0, "%Y-%m-%dT%H:%M:%SZ")
}

/// `metav1.MicroTime`: always with six digits.
pub(crate) fn micro_time(bytes: &[u8]) -> Result<Value, Fault> {
    let (seconds, nanos) = seconds_and_nanos(bytes)?;
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    format_time(seconds, nanos, "%Y-%m-%dT%H:%M:%S%.6fZ")
}

fn seconds_and_nanos(bytes: &[u8]) -> Result<(i64, i64), Fault> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => seconds = wire.integer()?,
            2 => nanos = wire.integer()?,
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

fn format_time(seconds: i64, nanos: i64, form: &str) -> Result<Value, Fault> {
    let timestamp = i32::try_from(nanos).ok().and_then(|nanos| Timestamp::new(seconds, nanos).ok());
    let timestamp = timestamp.ok_or(Fault::Time(seconds))?;
    let text = timestamp.strftime(form).to_string();
    if text.starts_with('-') { Err(Fault::Time(seconds)) } else { Ok(text.into()) }
}

/// `resource.Quantity`: a text in a message.
pub(crate) fn quantity(bytes: &[u8]) -> Result<Value, Fault> {
    let mut text = "0";
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            text = wire.text()?;
        }
    }
    Ok(text.into())
}

/// `intstr.IntOrString`: which of the two, the number, the text.
pub(crate) fn int_or_string(bytes: &[u8]) -> Result<Value, Fault> {
    let (mut is_text, mut number_value, mut text) = (false, 0, "");
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => is_text = wire.number()? != 0,
            2 => number_value = wire.integer()?,
            3 => text = wire.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number_value.into() })
}

/// Go's JSON shows whole numbers without a point.
pub(crate) fn float(number: f64) -> Result<Value, Fault> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Ok((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number).ok_or(Fault::NotFinite)
}

/// `runtime.RawExtension`, `metav1.FieldsV1` and the JSON of schemas: bytes that are JSON. None are a null.
pub(crate) fn json(bytes: &[u8]) -> Result<Value, Fault> {
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            raw = wire.bytes()?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(raw).map_err(|e| Fault::Json(e.to_string()))
}

/// `ExtraValue`: a list of texts as the value of a map.
pub(crate) fn strings(bytes: &[u8]) -> Result<Value, Fault> {
    let mut texts = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            texts.push(wire.text()?.into());
        }
    }
    Ok(Value::Array(texts))
}
