//! Cron schedules: five fields, or a word such as `@hourly`.
//!
//! Fields are bit sets, so asking for the next time is a walk over months, days, hours and minutes that
//! skips what cannot match. Times of the day that a change of the clock skips do not happen that day;
//! hours that the clock repeats happen twice, as in upstream's scheduler. Reads no clock.

use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, ToSpan, Zoned};

/// When a CronJob runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Every(SignedDuration),
    Fields(Fields),
}

/// One bit per value that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both days and weekdays are given: then either of them suffices.
    either_day: bool,
}

/// Why a schedule was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(String);

/// The smallest and largest value of a field, and names for its values from the smallest on.
struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { low: 0, high: 59, names: &[] };
const HOURS: Bounds = Bounds { low: 0, high: 23, names: &[] };
const DAYS: Bounds = Bounds { low: 1, high: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds =
    Bounds { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// A schedule that never matches (February 30) is given up after so many years.
const HORIZON_YEARS: i16 = 5;

impl CronSchedule {
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        if text.is_empty() {
            return fail("empty spec string");
        }
        let spelled_out = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => match text.strip_prefix("@every ") {
                Some(duration) => return every(duration.trim()).map(|d| CronSchedule(Form::Every(d))),
                None if text.starts_with('@') => {
                    return fail(format_args!("unrecognized descriptor: {text}"));
                }
                None => text,
            },
        };
        let parts: Vec<&str> = spelled_out.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else {
            let (count, list) = (parts.len(), parts.join(" "));
            return fail(format_args!("expected exactly 5 fields, found {count}: [{list}]"));
        };
        let (days, every_day) = set(days, &DAYS)?;
        let (weekdays, every_weekday) = set(weekdays, &WEEKDAYS)?;
        Ok(CronSchedule(Form::Fields(Fields {
            minutes: set(minutes, &MINUTES)?.0,
            hours: set(hours, &HOURS)?.0,
            days,
            months: set(months, &MONTHS)?.0,
            weekdays,
            either_day: !every_day && !every_weekday,
        })))
    }

    /// The first time after `after`, in its time zone; None if there is none in the next years.
    pub fn next_after(&self, after: &Zoned) -> Option<Zoned> {
        match &self.0 {
            Form::Every(duration) => {
                let whole = after.with().subsec_nanosecond(0).build().ok()?;
                whole.checked_add(*duration).ok()
            }
            Form::Fields(fields) => fields.next_after(after),
        }
    }
}

impl Fields {
    fn next_after(&self, after: &Zoned) -> Option<Zoned> {
        let minute = after.with().second(0).subsec_nanosecond(0).build().ok()?;
        let mut time = minute.checked_add(SignedDuration::from_mins(1)).ok()?;
        let horizon = time.year().saturating_add(HORIZON_YEARS);
        while time.year() <= horizon {
            let next = if !has(self.months, time.month()) {
                let next_month = time.first_of_month().and_then(|first| first.checked_add(1.month()));
                next_month.and_then(|day| day.start_of_day())
            } else if !self.has_day(&time) {
                time.tomorrow().and_then(|day| day.start_of_day())
            } else if !has(self.hours, time.hour()) {
                // Absolute steps: an hour that the clock skips or repeats is walked through as it is.
                time.checked_add(SignedDuration::from_mins(60 - i64::from(time.minute())))
            } else if !has(self.minutes, time.minute()) {
                time.checked_add(SignedDuration::from_mins(1))
            } else {
                return Some(time);
            };
            time = next.ok()?;
        }
        None
    }

    fn has_day(&self, time: &Zoned) -> bool {
        let day = has(self.days, time.day());
        let weekday = has(self.weekdays, time.weekday().to_sunday_zero_offset());
        if self.either_day { day || weekday } else { day && weekday }
    }
}

/// A time zone by its IANA name. `Local` is none: it would depend on the machine.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

fn has(set: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| set & (1 << value) != 0)
}

/// The values of a field, and whether it was left open by `*` or `?`.
fn set(field: &str, bounds: &Bounds) -> Result<(u64, bool), CronError> {
    let (mut bits, mut open) = (0, false);
    for range in field.split(',').filter(|range| !range.is_empty()) {
        let (values, any) = range_bits(range, bounds)?;
        bits |= values;
        open |= any;
    }
    Ok((bits, open))
}

/// `*`, `5`, `1-5`, `*/2`, `1-30/5`, `10/5` (from 10 on), `mon-fri`.
fn range_bits(range: &str, bounds: &Bounds) -> Result<(u64, bool), CronError> {
    let (values, step) = match range.split('/').collect::<Vec<_>>()[..] {
        [values] => (values, None),
        [values, step] => (values, Some(number(step, &[])?)),
        _ => return fail(format_args!("too many slashes: {range}")),
    };
    let (low, high, open) = match values.split('-').collect::<Vec<_>>()[..] {
        ["*" | "?"] => (bounds.low, bounds.high, step.is_none_or(|step| step == 1)),
        [one] => {
            let low = value(one, bounds)?;
            (low, if step.is_some() { bounds.high } else { low }, false)
        }
        [low, high] => (value(low, bounds)?, value(high, bounds)?, false),
        _ => return fail(format_args!("too many hyphens: {range}")),
    };
    match step {
        _ if low < bounds.low => {
            fail(format_args!("beginning of range ({low}) below minimum ({}): {range}", bounds.low))
        }
        _ if high > bounds.high => {
            fail(format_args!("end of range ({high}) above maximum ({}): {range}", bounds.high))
        }
        _ if low > high => {
            fail(format_args!("beginning of range ({low}) beyond end of range ({high}): {range}"))
        }
        Some(0) => fail(format_args!("step of range should be a positive number: {range}")),
        _ => {
            let step = usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX);
            Ok(((low..=high).step_by(step).fold(0, |bits, value| bits | 1 << value), open))
        }
    }
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, CronError> {
    number(text, bounds.names).map(|n| if is_name(text, bounds.names) { n + bounds.low } else { n })
}

fn is_name(text: &str, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(text))
}

/// A number, or the place of a name in its list.
fn number(text: &str, names: &[&str]) -> Result<u32, CronError> {
    if let Some(place) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(u32::try_from(place).unwrap_or_default());
    }
    match text.parse() {
        Ok(number) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
        _ => fail(format_args!("failed to parse int from {text}: invalid syntax")),
    }
}

/// `1h30m`, at least one second.
fn every(text: &str) -> Result<SignedDuration, CronError> {
    let mut seconds: i64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let unit = match tail.bytes().next() {
            Some(b'h') => 3600,
            Some(b'm') => 60,
            Some(b's') => 1,
            _ => return fail(format_args!("failed to parse duration @every {text}")),
        };
        let amount = number.parse::<i64>().ok().and_then(|n| n.checked_mul(unit));
        match amount.and_then(|amount| seconds.checked_add(amount)) {
            Some(sum) => seconds = sum,
            None => return fail(format_args!("failed to parse duration @every {text}")),
        }
        rest = &tail[1..];
    }
    Ok(SignedDuration::from_secs(seconds.max(1)))
}

fn fail<T>(message: impl fmt::Display) -> Result<T, CronError> {
    Err(CronError(message.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(schedule: &str, after: &str, expected: &[&str]) {
        let parsed = CronSchedule::parse(schedule).expect(schedule);
        let mut time: Zoned = after.parse().expect(after);
        for next in expected {
            time = parsed.next_after(&time).expect("a next time");
            assert_eq!(time, next.parse::<Zoned>().expect(next), "{schedule}: {time}");
        }
    }

    #[test]
    fn next_times() {
        let zone = |text: &str| format!("{text}[UTC]");
        let utc = |schedule: &str, after: &str, expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|t| zone(t)).collect();
            check(schedule, &zone(after), &expected.iter().map(String::as_str).collect::<Vec<_>>());
        };
        utc("* * * * *", "2026-01-01T00:00:30", &["2026-01-01T00:01:00", "2026-01-01T00:02:00"]);
        utc("*/15 * * * *", "2026-01-01T00:00:00", &["2026-01-01T00:15:00", "2026-01-01T00:30:00"]);
        utc("@hourly", "2026-12-31T23:10:00", &["2027-01-01T00:00:00", "2027-01-01T01:00:00"]);
        utc("0 12 29 2 *", "2026-01-01T00:00:00", &["2028-02-29T12:00:00"]);
        utc("30 8 * * mon-fri", "2026-07-24T09:00:00", &["2026-07-27T08:30:00", "2026-07-28T08:30:00"]);
        utc("0 0 13 * 5", "2026-02-07T00:00:00", &["2026-02-13T00:00:00", "2026-02-20T00:00:00"]);
        utc("0 0 */2 * 1", "2026-02-01T00:00:00", &["2026-02-02T00:00:00", "2026-02-03T00:00:00"]);
        utc("5/20 10 1 jan ?", "2026-01-01T10:05:00", &["2026-01-01T10:25:00", "2026-01-01T10:45:00"]);
        utc("@every 1h30m", "2026-01-01T00:00:00", &["2026-01-01T01:30:00"]);
    }

    #[test]
    fn clock_changes() {
        // At 02:00 on 29 March 2026 the clock jumps to 03:00; at 03:00 on 25 October it goes back.
        check("30 2 * * *", "2026-03-28T12:00:00[Europe/Berlin]", &["2026-03-30T02:30:00[Europe/Berlin]"]);
        check(
            "30 2 * * *",
            "2026-10-24T12:00:00[Europe/Berlin]",
            &["2026-10-25T02:30:00+02:00[Europe/Berlin]", "2026-10-25T02:30:00+01:00[Europe/Berlin]"],
        );
    }

    #[test]
    fn never() {
        let parsed = CronSchedule::parse("0 0 30 2 *").expect("valid");
        assert_eq!(parsed.next_after(&"2026-01-01T00:00:00[UTC]".parse().expect("time")), None);
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("", "empty spec string"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("0 0 0 * * *", "expected exactly 5 fields, found 6"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * 13 *", "above maximum (12)"),
            ("* * * * 7", "above maximum (6)"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number"),
            ("1-2-3 * * * *", "too many hyphens"),
            ("1/2/3 * * * *", "too many slashes"),
            ("x * * * *", "failed to parse int from x"),
            ("+1 * * * *", "failed to parse int from +1"),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
            ("@every x", "failed to parse duration"),
        ] {
            let error = CronSchedule::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn time_zones() {
        assert!(time_zone("Europe/Berlin").is_some());
        assert!(time_zone("Etc/UTC").is_some());
        assert!(time_zone("Mars/Olympus").is_none());
        assert!(time_zone("Local").is_none());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[0-9*/,?@ a-z-]{0,24}") {
            if let Ok(schedule) = CronSchedule::parse(&text) {
                let start: Zoned = "2026-01-01T00:00:00[UTC]".parse().expect("time");
                if let Some(next) = schedule.next_after(&start) {
                    prop_assert!(next > start);
                }
            }
        }
    }
}
