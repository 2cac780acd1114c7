//! Times as people read them: ages, and dates as Go prints them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use minik8s_meta::human_duration;
use serde_json::Value;

pub const UNKNOWN: &str = "<unknown>";

/// How long ago a time of the API was: `5m12s`, or `<unknown>`.
pub fn age_of(time: &Value) -> String {
    age(time, Timestamp::now())
}

pub fn age(time: &Value, now: Timestamp) -> String {
    match parse(time) {
        Some(then) => human_duration(now.duration_since(then).as_secs()),
        None => UNKNOWN.to_owned(),
    }
}

pub fn parse(time: &Value) -> Option<Timestamp> {
    time.as_str().and_then(|text| text.parse().ok())
}

/// `Mon, 02 Jan 2006 15:04:05 +0000`, as `describe` shows times.
pub fn long(time: &Value) -> String {
    match parse(time) {
        Some(time) => time.to_zoned(TimeZone::system()).strftime("%a, %d %b %Y %H:%M:%S %z").to_string(),
        None => UNKNOWN.to_owned(),
    }
}
