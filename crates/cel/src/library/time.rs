//! The parts of times, in UTC or a zone, and of durations.

use jiff::tz::{Offset, TimeZone};

use super::{Evaluated, Row, mismatch};
use crate::error::EvalError;
use crate::value::Value;

pub const TABLE: &[Row] = &[
    ("timestamp_to_year", "timestamp::getFullYear() -> int", |_, args| part(args, |t| t.year().into())),
    ("timestamp_to_year_with_tz", "timestamp::getFullYear(string) -> int", |_, args| {
        part(args, |t| t.year().into())
    }),
    ("timestamp_to_month", "timestamp::getMonth() -> int", |_, args| {
        part(args, |t| i64::from(t.month()) - 1)
    }),
    ("timestamp_to_month_with_tz", "timestamp::getMonth(string) -> int", |_, args| {
        part(args, |t| i64::from(t.month()) - 1)
    }),
    ("timestamp_to_day_of_year", "timestamp::getDayOfYear() -> int", |_, args| {
        part(args, |t| i64::from(t.day_of_year()) - 1)
    }),
    ("timestamp_to_day_of_year_with_tz", "timestamp::getDayOfYear(string) -> int", |_, args| {
        part(args, |t| i64::from(t.day_of_year()) - 1)
    }),
    ("timestamp_to_day_of_month", "timestamp::getDayOfMonth() -> int", |_, args| {
        part(args, |t| i64::from(t.day()) - 1)
    }),
    ("timestamp_to_day_of_month_with_tz", "timestamp::getDayOfMonth(string) -> int", |_, args| {
        part(args, |t| i64::from(t.day()) - 1)
    }),
    ("timestamp_to_day_of_month_1_based", "timestamp::getDate() -> int", |_, args| {
        part(args, |t| t.day().into())
    }),
    ("timestamp_to_day_of_month_1_based_with_tz", "timestamp::getDate(string) -> int", |_, args| {
        part(args, |t| t.day().into())
    }),
    ("timestamp_to_day_of_week", "timestamp::getDayOfWeek() -> int", |_, args| {
        part(args, |t| t.weekday().to_sunday_zero_offset().into())
    }),
    ("timestamp_to_day_of_week_with_tz", "timestamp::getDayOfWeek(string) -> int", |_, args| {
        part(args, |t| t.weekday().to_sunday_zero_offset().into())
    }),
    ("timestamp_to_hours", "timestamp::getHours() -> int", |_, args| part(args, |t| t.hour().into())),
    ("timestamp_to_hours_with_tz", "timestamp::getHours(string) -> int", |_, args| {
        part(args, |t| t.hour().into())
    }),
    ("duration_to_hours", "duration::getHours() -> int", |_, args| whole(args, 3_600_000_000_000)),
    ("timestamp_to_minutes", "timestamp::getMinutes() -> int", |_, args| part(args, |t| t.minute().into())),
    ("timestamp_to_minutes_with_tz", "timestamp::getMinutes(string) -> int", |_, args| {
        part(args, |t| t.minute().into())
    }),
    ("duration_to_minutes", "duration::getMinutes() -> int", |_, args| whole(args, 60_000_000_000)),
    ("timestamp_to_seconds", "timestamp::getSeconds() -> int", |_, args| part(args, |t| t.second().into())),
    ("timestamp_to_seconds_tz", "timestamp::getSeconds(string) -> int", |_, args| {
        part(args, |t| t.second().into())
    }),
    ("duration_to_seconds", "duration::getSeconds() -> int", |_, args| whole(args, 1_000_000_000)),
    ("timestamp_to_milliseconds", "timestamp::getMilliseconds() -> int", |_, args| {
        part(args, |t| t.millisecond().into())
    }),
    ("timestamp_to_milliseconds_with_tz", "timestamp::getMilliseconds(string) -> int", |_, args| {
        part(args, |t| t.millisecond().into())
    }),
    ("duration_to_milliseconds", "duration::getMilliseconds() -> int", |_, args| whole(args, 1_000_000)),
];

fn part<'a>(args: &[Value<'a>], of: fn(&jiff::Zoned) -> i64) -> Evaluated<'a> {
    let Value::Timestamp(time) = &args[0] else { return mismatch() };
    let zone = match args.get(1) {
        None => TimeZone::UTC,
        Some(Value::String(name)) => zone(name)?,
        Some(_) => return mismatch(),
    };
    Ok(Value::Int(of(&time.to_zoned(zone))))
}

/// A name (`Europe/Berlin`) or an offset (`+02:00`, `-08:00`, `02:00`).
fn zone(name: &str) -> Result<TimeZone, EvalError> {
    let unknown = || EvalError::failed(format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else {
        return if name.is_empty() { Ok(TimeZone::UTC) } else { TimeZone::get(name).map_err(|_| unknown()) };
    };
    let (sign, hours) = match hours.strip_prefix('-') {
        Some(hours) => (-1, hours),
        None => (1, hours.strip_prefix('+').unwrap_or(hours)),
    };
    let hours: i32 = hours.parse().map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return Err(unknown());
    }
    let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map_err(|_| unknown())?;
    Ok(TimeZone::fixed(offset))
}

fn whole<'a>(args: &[Value<'a>], unit: i64) -> Evaluated<'a> {
    match &args[0] {
        Value::Duration(nanoseconds) => Ok(Value::Int(nanoseconds / unit)),
        _ => mismatch(),
    }
}
