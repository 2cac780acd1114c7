//! Whether a request is what a rule wants.

use std::borrow::Cow;

use minik8s_meta::gateway::{GatewayMatch, PathMatch, ValueMatch};
use regex::Regex;

use crate::RequestHead;

#[derive(Debug, PartialEq)]
pub struct Match<T> {
    path: Path,
    method: Option<String>,
    headers: Vec<(String, Value)>,
    query: Vec<(String, Value)>,
    /// What it leads to.
    pub rule: T,
}

#[derive(Debug, PartialEq)]
enum Path {
    Any,
    Exact(String),
    Prefix(String),
    Pattern(Pattern),
}

#[derive(Debug, PartialEq)]
enum Value {
    Exact(String),
    Pattern(Pattern),
}

/// A regular expression of a whole text. What cannot be compiled matches nothing: the API server lets none in.
#[derive(Debug)]
struct Pattern {
    text: String,
    compiled: Option<Regex>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        let compiled = regex::RegexBuilder::new(&format!("^(?:{text})$")).size_limit(1 << 20).build().ok();
        Pattern { text: text.to_owned(), compiled }
    }

    fn matches(&self, text: &str) -> bool {
        self.compiled.as_ref().is_some_and(|compiled| compiled.is_match(text))
    }
}

impl<T> Match<T> {
    pub fn new(wanted: &GatewayMatch, rule: T) -> Self {
        let values =
            |list: &[ValueMatch]| list.iter().map(|one| (one.name.clone(), Value::new(one))).collect();
        Match {
            path: wanted.path.as_ref().map_or(Path::Any, Path::new),
            method: wanted.method.clone(),
            headers: values(&wanted.headers),
            query: values(&wanted.query),
            rule,
        }
    }

    pub fn is_met(&self, head: &RequestHead<'_>) -> bool {
        self.path.matches(head.path())
            && self.method.as_deref().is_none_or(|method| method == head.method)
            && self.headers.iter().all(|(name, value)| {
                let found = head.headers.get(name).and_then(|bytes| std::str::from_utf8(bytes).ok());
                found.is_some_and(|text| value.matches(text))
            })
            && (self.query.is_empty() || self.has_query(head.target))
    }

    /// The first parameter of a name counts.
    fn has_query(&self, target: &str) -> bool {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        self.query.iter().all(|(name, value)| {
            let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            let found = pairs.find(|(found, _)| decode(found) == name.as_str());
            found.is_some_and(|(_, text)| value.matches(&decode(text)))
        })
    }
}

impl Path {
    fn new(wanted: &PathMatch) -> Self {
        match wanted.kind.as_str() {
            "Exact" => Path::Exact(wanted.value.clone()),
            "RegularExpression" => Path::Pattern(Pattern::new(&wanted.value)),
            _ => Path::Prefix(wanted.value.clone()),
        }
    }

    /// Prefixes are of whole elements: `/a` is one of `/a/b`, not of `/ab`.
    fn matches(&self, path: &str) -> bool {
        match self {
            Path::Any => true,
            Path::Exact(wanted) => path == wanted,
            Path::Pattern(pattern) => pattern.matches(path),
            Path::Prefix(prefix) => path
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix == "/"),
        }
    }
}

impl Value {
    fn new(wanted: &ValueMatch) -> Self {
        match wanted.regex {
            true => Value::Pattern(Pattern::new(&wanted.value)),
            false => Value::Exact(wanted.value.clone()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Value::Exact(wanted) => text == wanted,
            Value::Pattern(pattern) => pattern.matches(text),
        }
    }
}

/// A query's text without its escapes.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return text.into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code =
            after.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}
