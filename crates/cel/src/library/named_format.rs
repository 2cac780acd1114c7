//! Formats by name: `format.dns1123Label().validate(name)` is none, or a list of what is wrong.

use std::sync::OnceLock;

use base64::Engine;
use regex::Regex;

use super::{Evaluated, Row, Site, mismatch, url::Url};
use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedFormat {
    Dns1123Label { prefix: bool },
    Dns1123Subdomain { prefix: bool },
    Dns1035Label { prefix: bool },
    QualifiedName,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    Datetime,
}

pub const TABLE: &[Row] = &[
    ("format-validate", "format::validate(string) -> optional(list(string))", validate),
    ("format-named", "format.named(string) -> optional(format)", |_, args| match &args[0] {
        Value::String(name) => {
            let found = NamedFormat::named(name);
            Ok(found.map_or_else(Value::none, |format| Value::some(Value::Format(format))))
        }
        _ => mismatch(),
    }),
    ("format.dns1123Label", "format.dns1123Label() -> format", |_, _| {
        of(NamedFormat::Dns1123Label { prefix: false })
    }),
    ("format.dns1123Subdomain", "format.dns1123Subdomain() -> format", |_, _| {
        of(NamedFormat::Dns1123Subdomain { prefix: false })
    }),
    ("format.dns1035Label", "format.dns1035Label() -> format", |_, _| {
        of(NamedFormat::Dns1035Label { prefix: false })
    }),
    ("format.dns1123LabelPrefix", "format.dns1123LabelPrefix() -> format", |_, _| {
        of(NamedFormat::Dns1123Label { prefix: true })
    }),
    ("format.dns1123SubdomainPrefix", "format.dns1123SubdomainPrefix() -> format", |_, _| {
        of(NamedFormat::Dns1123Subdomain { prefix: true })
    }),
    ("format.dns1035LabelPrefix", "format.dns1035LabelPrefix() -> format", |_, _| {
        of(NamedFormat::Dns1035Label { prefix: true })
    }),
    ("format.qualifiedName", "format.qualifiedName() -> format", |_, _| of(NamedFormat::QualifiedName)),
    ("format.labelValue", "format.labelValue() -> format", |_, _| of(NamedFormat::LabelValue)),
    ("format.uri", "format.uri() -> format", |_, _| of(NamedFormat::Uri)),
    ("format.uuid", "format.uuid() -> format", |_, _| of(NamedFormat::Uuid)),
    ("format.byte", "format.byte() -> format", |_, _| of(NamedFormat::Byte)),
    ("format.date", "format.date() -> format", |_, _| of(NamedFormat::Date)),
    ("format.datetime", "format.datetime() -> format", |_, _| of(NamedFormat::Datetime)),
];

fn of<'a>(format: NamedFormat) -> Evaluated<'a> {
    Ok(Value::Format(format))
}

fn validate<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Format(format), Value::String(text)] = args else { return mismatch() };
    let problems = format.problems(text);
    if problems.is_empty() {
        return Ok(Value::none());
    }
    Ok(Value::some(Value::list(problems.into_iter().map(Value::from).collect())))
}

impl NamedFormat {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dns1123Label" => NamedFormat::Dns1123Label { prefix: false },
            "dns1123Subdomain" => NamedFormat::Dns1123Subdomain { prefix: false },
            "dns1035Label" => NamedFormat::Dns1035Label { prefix: false },
            "dns1123LabelPrefix" => NamedFormat::Dns1123Label { prefix: true },
            "dns1123SubdomainPrefix" => NamedFormat::Dns1123Subdomain { prefix: true },
            "dns1035LabelPrefix" => NamedFormat::Dns1035Label { prefix: true },
            "qualifiedName" => NamedFormat::QualifiedName,
            "labelValue" => NamedFormat::LabelValue,
            "uri" => NamedFormat::Uri,
            "uuid" => NamedFormat::Uuid,
            "byte" => NamedFormat::Byte,
            "date" => NamedFormat::Date,
            "datetime" => NamedFormat::Datetime,
            _ => return None,
        })
    }

    /// How long the pattern is that upstream checks with, which is what a check costs.
    pub fn pattern_size(self) -> u64 {
        match self {
            NamedFormat::Dns1123Label { .. } | NamedFormat::Dns1035Label { .. } => 30,
            NamedFormat::Dns1123Subdomain { .. } | NamedFormat::QualifiedName => 60,
            NamedFormat::LabelValue => 40,
            NamedFormat::Uri => 1103,
            NamedFormat::Uuid => 71,
            NamedFormat::Byte => 84,
            NamedFormat::Date | NamedFormat::Datetime => 76,
        }
    }

    fn problems(self, text: &str) -> Vec<String> {
        match self {
            NamedFormat::Dns1123Label { prefix } => label(&without_dash(text, prefix)),
            NamedFormat::Dns1123Subdomain { prefix } => subdomain(&without_dash(text, prefix)),
            NamedFormat::Dns1035Label { prefix } => label_1035(&without_dash(text, prefix)),
            NamedFormat::QualifiedName => qualified_name(text),
            NamedFormat::LabelValue => label_value(text),
            NamedFormat::Uri => {
                Url::parse(text).err().map(|why| format!("parse {text:?}: {why}")).into_iter().collect()
            }
            NamedFormat::Uuid => unless(is_uuid(text), "does not match the UUID format"),
            NamedFormat::Byte => {
                let decoded = base64::engine::general_purpose::STANDARD.decode(text);
                unless(!text.is_empty() && decoded.is_ok(), "invalid base64")
            }
            NamedFormat::Date => unless(is_date(text), "invalid date"),
            NamedFormat::Datetime => unless(text.parse::<jiff::Timestamp>().is_ok(), "invalid datetime"),
        }
    }
}

/// A prefix may end in a dash: something follows it.
fn without_dash(text: &str, prefix: bool) -> String {
    match text.strip_suffix('-') {
        Some(rest) if prefix => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn unless(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.to_owned()] }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_uuid(text: &str) -> bool {
    let hexadecimal: String = text.chars().filter(|c| *c != '-').collect();
    hexadecimal.len() == 32 && hexadecimal.chars().all(|c| c.is_ascii_hexdigit())
}

fn shape(text: &str, longest: usize, pattern: &'static str, what: &str, examples: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > longest {
        problems.push(format!("must be no more than {longest} bytes"));
    }
    if !is_match(pattern, text) {
        let examples: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
        let examples = examples.join(",  or ");
        problems.push(format!("{what} (e.g. {examples}, regex used for validation is '{pattern}')"));
    }
    problems
}

/// The few patterns of this file, compiled once.
fn is_match(pattern: &'static str, text: &str) -> bool {
    static COMPILED: OnceLock<Vec<(&'static str, Regex)>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let patterns = [LABEL, SUBDOMAIN, LABEL_1035, QUALIFIED, LABEL_VALUE];
        let anchored = |pattern: &'static str| Some((pattern, Regex::new(&format!("^(?:{pattern})$")).ok()?));
        patterns.into_iter().filter_map(anchored).collect()
    });
    compiled.iter().find(|(known, _)| *known == pattern).is_some_and(|(_, regex)| regex.is_match(text))
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

fn label(text: &str) -> Vec<String> {
    let what = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                and end with an alphanumeric character";
    shape(text, 63, LABEL, what, &["my-name", "123-abc"])
}

fn subdomain(text: &str) -> Vec<String> {
    let what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                must start and end with an alphanumeric character";
    shape(text, 253, SUBDOMAIN, what, &["example.com"])
}

fn label_1035(text: &str) -> Vec<String> {
    let what = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                character, and end with an alphanumeric character";
    shape(text, 63, LABEL_1035, what, &["my-name", "abc-123"])
}

fn label_value(text: &str) -> Vec<String> {
    let what = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                start and end with an alphanumeric character";
    shape(text, 63, LABEL_VALUE, what, &["MyValue", "my_value", "12345"])
}

fn qualified_name(text: &str) -> Vec<String> {
    let what = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                alphanumeric character";
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems
                    .extend(subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        Some(_) => return vec![format!("a qualified name {what}")],
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_match(QUALIFIED, name) {
        let examples = "'MyName',  or 'my.name',  or '123-abc'";
        problems.push(format!("{what} (e.g. {examples}, regex used for validation is '{QUALIFIED}')"));
    }
    problems
}
