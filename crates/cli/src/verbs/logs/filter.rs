//! Which lines are wanted: by time, by a regular expression, by fields of lines that are JSON. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use minik8s_meta::FieldCondition;
use regex::bytes::Regex;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::flags::duration;

/// A line with the moment at which it was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub time: Timestamp,
    /// Without the time and the end of the line.
    pub text: Vec<u8>,
}

impl Line {
    /// `2026-01-31T12:00:00.5Z text`, as the server writes it when asked for times.
    pub fn parse(line: &[u8]) -> Option<Line> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let time = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
        Some(Line { time, text: line.get(end + 1..).unwrap_or_default().to_vec() })
    }
}

/// All conditions must hold.
#[derive(Debug, Default)]
pub struct Filter {
    pub until: Option<Timestamp>,
    grep: Option<Regex>,
    fields: Vec<FieldCondition>,
}

impl Filter {
    pub fn new(until: Option<&str>, grep: Option<&str>, fields: &[String], now: Timestamp) -> Result<Self> {
        let grep = grep.map(Regex::new).transpose();
        let grep = grep.map_err(|error| Error::plain(format!("--grep is no regular expression: {error}")))?;
        Ok(Filter {
            until: until.map(|text| moment(text, now)).transpose()?,
            grep,
            fields: fields.iter().map(|text| condition(text)).collect::<Result<_>>()?,
        })
    }

    pub fn takes(&self, line: &Line) -> bool {
        self.until.is_none_or(|until| line.time <= until)
            && self.grep.as_ref().is_none_or(|grep| grep.is_match(&line.text))
            && self.has_fields(&line.text)
    }

    fn has_fields(&self, text: &[u8]) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        let Ok(object) = serde_json::from_slice::<Value>(text) else { return false };
        self.fields.iter().all(|field| field.fits(&object))
    }
}

/// A moment, or how long ago.
fn moment(text: &str, now: Timestamp) -> Result<Timestamp> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let wrong =
        || Error::plain(format!("--until {text}: give a time as 10m, or a moment as 2026-01-31T12:00:00Z"));
    let ago: Duration = duration(text).map_err(|_| wrong())?;
    let ago = SignedDuration::try_from(ago).map_err(|_| wrong())?;
    now.checked_sub(ago).map_err(|_| wrong())
}

fn condition(text: &str) -> Result<FieldCondition> {
    text.parse().map_err(|problem| Error::plain(format!("--where {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn lines_have_their_time() {
        let check = |text: &str, want: Option<(&str, &str)>| {
            let found = Line::parse(text.as_bytes());
            let want = want.map(|(time, text)| Line { time: time.parse().unwrap(), text: text.into() });
            assert_eq!(found, want, "{text}");
        };
        check("2026-01-01T00:00:00.25Z hello  you\n", Some(("2026-01-01T00:00:00.25Z", "hello  you")));
        check("2026-01-01T00:00:00Z \n", Some(("2026-01-01T00:00:00Z", "")));
        check("2026-01-01T00:00:00Z", Some(("2026-01-01T00:00:00Z", "")));
        check("unable to retrieve logs", None);
        check("", None);
    }

    #[test]
    fn conditions() {
        let check = |until: Option<&str>, grep: Option<&str>, fields: &[&str], text: &str, want: bool| {
            let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
            let filter = Filter::new(until, grep, &fields, now()).unwrap();
            let line = Line { time: "2026-01-01T11:30:00Z".parse().unwrap(), text: text.into() };
            assert_eq!(filter.takes(&line), want, "{until:?} {grep:?} {fields:?} {text}");
        };
        check(None, None, &[], "", true);
        check(Some("10m"), None, &[], "", true);
        check(Some("1h"), None, &[], "", false);
        check(Some("2026-01-01T11:30:00Z"), None, &[], "", true);
        check(Some("2026-01-01T11:29:59Z"), None, &[], "", false);
        check(None, Some("^GET /[a-z]+ 5"), &[], "GET /cart 503", true);
        check(None, Some("^GET /[a-z]+ 5"), &[], "GET /cart 200", false);
        let json = r#"{"level":"error","http":{"code":503},"ok":false,"none":null}"#;
        check(None, None, &["level=error"], json, true);
        check(None, None, &["level=error", "http.code=503", "ok=false"], json, true);
        check(None, None, &["level=info"], json, false);
        check(None, None, &["level!=info"], json, true);
        check(None, None, &["nothing=x"], json, false);
        check(None, None, &["nothing!=x"], json, true);
        check(None, None, &["none=null"], json, false);
        check(None, Some("503"), &["level=error"], json, true);
        check(None, None, &["level=error"], "level=error", false);
        check(None, None, &["level!=error"], "[1]", false);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_to_write() {
        let check = |until: Option<&str>, grep: Option<&str>, fields: &[&str], part: &str| {
            let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
            let said = Filter::new(until, grep, &fields, now()).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        };
        check(Some("yesterday"), None, &[], "2026-01-31T12:00:00Z");
        check(None, Some("("), &[], "--grep");
        check(None, None, &["level"], "level=error");
        check(None, None, &["=error"], "level=error");
    }
}
