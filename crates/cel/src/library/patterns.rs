//! Regular expressions. Those that are constants are compiled with the expression.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use super::{Evaluated, Row, Site, mismatch};
use crate::error::EvalError;
use crate::value::Value;

/// How large a compiled pattern may be, in bytes.
const LARGEST: usize = 1 << 20;

pub const TABLE: &[Row] = &[
    ("matches", "matches(string, string) -> bool", matches),
    ("matches_string", "string::matches(string) -> bool", matches),
    ("string_find_string", "string::find(string) -> string", find),
    ("string_find_all_string", "string::findAll(string) -> list(string)", find_all),
    ("string_find_all_string_int", "string::findAll(string, int) -> list(string)", find_all),
];

/// The functions whose second argument is a pattern.
pub const FUNCTIONS: [&str; 3] = ["matches", "find", "findAll"];

pub fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(LARGEST).build().map_err(|error| {
        // The library draws the pattern; the last line says what is wrong.
        let message = error.to_string();
        let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("error parsing regexp: {reason}: `{pattern}`")
    })
}

fn regex<'s>(site: &'s Site, pattern: &str) -> Result<Cow<'s, Regex>, EvalError> {
    match &site.regex {
        Some(compiled) => Ok(Cow::Borrowed(compiled)),
        None => compile(pattern).map(Cow::Owned).map_err(EvalError::Failed),
    }
}

fn matches<'a>(site: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return mismatch() };
    Ok(Value::Bool(regex(site, pattern)?.is_match(text)))
}

fn find<'a>(site: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return mismatch() };
    let regex = regex(site, pattern)?;
    Ok(regex.find(text).map_or("", |found| found.as_str()).to_owned().into())
}

fn find_all<'a>(site: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return mismatch(),
    };
    let regex = regex(site, pattern)?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = regex.find_iter(text).take(most).map(|found| found.as_str().to_owned().into());
    Ok(Value::list(found.collect()))
}
