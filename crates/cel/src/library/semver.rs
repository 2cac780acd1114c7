//! Semantic versions: `semver('1.2.3').isLessThan(semver('1.10.0'))`

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Evaluated, Row, Site, mismatch};
use crate::error::EvalError;
use crate::value::Value;

#[derive(Debug)]
pub struct Semver {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

/// Numbers are less than words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

pub const TABLE: &[Row] = &[
    ("string_to_semver", "semver(string) -> semver", convert),
    ("string_bool_to_semver", "semver(string, bool) -> semver", convert),
    ("is_semver_string", "isSemver(string) -> bool", |_, args| Ok(Value::Bool(read(args)?.is_ok()))),
    ("is_semver_string_bool", "isSemver(string, bool) -> bool", |_, args| {
        Ok(Value::Bool(read(args)?.is_ok()))
    }),
    ("semver_is_greater_than", "semver::isGreaterThan(semver) -> bool", |_, args| {
        compare(args).map(|order| Value::Bool(order.is_gt()))
    }),
    ("semver_is_less_than", "semver::isLessThan(semver) -> bool", |_, args| {
        compare(args).map(|order| Value::Bool(order.is_lt()))
    }),
    ("semver_compare_to", "semver::compareTo(semver) -> int", |_, args| {
        compare(args).map(|order| Value::Int(order as i64))
    }),
    ("semver_major", "semver::major() -> int", |_, args| number(args, 0)),
    ("semver_minor", "semver::minor() -> int", |_, args| number(args, 1)),
    ("semver_patch", "semver::patch() -> int", |_, args| number(args, 2)),
];

fn convert<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    read(args)?.map(|version| Value::Semver(Arc::new(version))).map_err(EvalError::failed)
}

fn read(args: &[Value]) -> Result<Result<Semver, &'static str>, EvalError> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Semver::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(normalize(text).and_then(|text| Semver::parse(&text))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn compare(args: &[Value]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Semver(one), Value::Semver(two)] => Ok(one.order(two)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn number<'a>(args: &[Value<'a>], part: usize) -> Evaluated<'a> {
    match &args[0] {
        Value::Semver(version) => Ok(Value::Int(i64::try_from(version.numbers[part]).unwrap_or(i64::MAX))),
        _ => mismatch(),
    }
}

/// `v01.2` as `1.2.0`.
fn normalize(text: &str) -> Result<String, &'static str> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data");
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

impl Semver {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("Version string empty");
        }
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (core, pre_release) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let numbers: Vec<u64> = core.split('.').map(plain_number).collect::<Result<_, _>>()?;
        let numbers = <[u64; 3]>::try_from(numbers).map_err(|_| "No Major.Minor.Patch elements found")?;
        let pre_release = pre_release.map(|pre| pre.split('.').map(identifier).collect::<Result<_, _>>());
        let words = |text: &str| text.split('.').all(|word| !word.is_empty() && word.chars().all(is_word));
        if build.is_some_and(|build| !words(build)) {
            return Err("Invalid character(s) found in build meta data");
        }
        Ok(Semver { numbers, pre_release: pre_release.transpose()?.unwrap_or_default() })
    }

    /// What comes before a release is less than the release; build data says nothing.
    pub fn order(&self, other: &Semver) -> Ordering {
        let by_number = self.numbers.cmp(&other.numbers);
        by_number.then_with(|| match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre_release.cmp(&other.pre_release),
        })
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-'
}

fn plain_number(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_digit()) {
        return Err("Invalid character(s) found in version number");
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err("Version number must not contain leading zeroes");
    }
    text.parse().map_err(|_| "Version number is too large")
}

fn identifier(text: &str) -> Result<Identifier, &'static str> {
    if text.is_empty() || !text.chars().all(is_word) {
        return Err("Invalid character(s) found in prerelease");
    }
    if text.chars().all(|c| c.is_ascii_digit()) {
        return plain_number(text).map(Identifier::Number);
    }
    Ok(Identifier::Word(text.to_owned()))
}
