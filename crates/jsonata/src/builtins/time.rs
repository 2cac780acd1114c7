//! Functions on times. What time it is comes from the caller.

use super::{argument, short};
use crate::calendar;
use crate::date_picture;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::value::Value;

type Answer = Result<Value, Error>;

pub fn now(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let now = evaluator.now;
    render(evaluator, now, argument(arguments, 0), argument(arguments, 1))
}

pub fn millis(evaluator: &mut Evaluator, _: &[Value], _: &Value) -> Answer {
    Ok(Value::Number(evaluator.now as f64))
}

pub fn from_millis(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::Number(number) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    render(evaluator, *number as i64, argument(arguments, 1), argument(arguments, 2))
}

fn render(evaluator: &mut Evaluator, time: i64, picture: &Value, timezone: &Value) -> Answer {
    // Beyond JavaScript's dates there is nothing.
    if time.unsigned_abs() > 8_640_000_000_000_000 {
        return Err(Error::new("D3110", "The time is out of range"));
    }
    let picture = picture.as_text().map_or(date_picture::ISO, |picture| picture);
    short(picture)?;
    evaluator.spend(picture.len().saturating_mul(8) + 4096)?;
    let text = date_picture::format(time, picture, timezone.as_text().map(|text| &**text))?;
    evaluator.text(text)
}

pub fn to_millis(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    if let Value::String(picture) = argument(arguments, 1) {
        short(picture)?;
        evaluator.spend(picture.len().saturating_mul(64))?;
        let time = date_picture::parse_text(text, picture, evaluator.now)?;
        return Ok(time.map_or(Value::Undefined, |time| Value::Number(time as f64)));
    }
    iso(text).map(|time| Value::Number(time as f64)).ok_or_else(|| {
        let message = format!(
            "The argument of the toMillis function must be an ISO 8601 formatted timestamp. Given \"{text}\""
        );
        Error::new("D3110", message)
    })
}

/// `2018`, `2018-03`, `2018-03-27`, with `T10:33:36.654` and a zone.
fn iso(text: &str) -> Option<i64> {
    let digits = |text: &str, count: usize| {
        (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<i64>().ok())
            .flatten()
    };
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    let day = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let start = calendar::milliseconds(year, month, day);
    let Some(time) = time else { return Some(start) };
    let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').map_or((clock, "0"), |(clock, fraction)| (clock, fraction));
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = digits(parts.next()?, 2)?;
    let fraction = format!("0.{fraction}").parse::<f64>().ok()?;
    let offset = match zone {
        "" | "Z" => 0,
        zone => {
            let plain = zone[1..].replace(':', "");
            let value = digits(&plain, 4)?;
            (value / 100 * 60 + value % 100) * if zone.starts_with('-') { -1 } else { 1 }
        }
    };
    if hour > 24 || minute > 59 || second > 59 {
        return None;
    }
    Some(
        start
            + hour * 3_600_000
            + (minute - offset) * 60_000
            + second * 1000
            + (fraction * 1000.0).floor() as i64,
    )
}
