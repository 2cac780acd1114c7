//! URLs: `url('https://example.com:80/a?b=c').getPort()`. Absolute ones and absolute paths, as a request has them.

use std::sync::Arc;

use indexmap::IndexMap;

use super::{Evaluated, Row, mismatch};
use crate::error::EvalError;
use crate::value::{Key, MadeMap, Map, Value};

#[derive(Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

pub const TABLE: &[Row] = &[
    ("string_to_url", "url(string) -> url", |_, args| match &args[0] {
        Value::String(text) => Url::parse(text).map(|url| Value::Url(Arc::new(url))).map_err(|why| {
            EvalError::failed(format!(
                "URL parse error during conversion from string: parse {:?}: {why}",
                &**text
            ))
        }),
        _ => mismatch(),
    }),
    ("is_url_string", "isURL(string) -> bool", |_, args| match &args[0] {
        Value::String(text) => Ok(Value::Bool(Url::parse(text).is_ok())),
        _ => mismatch(),
    }),
    ("url_get_scheme", "url::getScheme() -> string", |_, args| part(args, |url| url.scheme.clone())),
    ("url_get_host", "url::getHost() -> string", |_, args| part(args, |url| url.host.clone())),
    ("url_get_hostname", "url::getHostname() -> string", |_, args| {
        part(args, |url| url.split_host().0.to_owned())
    }),
    ("url_get_port", "url::getPort() -> string", |_, args| part(args, |url| url.split_host().1.to_owned())),
    ("url_get_escaped_path", "url::getEscapedPath() -> string", |_, args| {
        part(args, |url| escaped(&url.path))
    }),
    ("url_get_query", "url::getQuery() -> map(string, list(string))", |_, args| match &args[0] {
        Value::Url(url) => Ok(query(&url.query)),
        _ => mismatch(),
    }),
];

fn part<'a>(args: &[Value<'a>], of: fn(&Url) -> String) -> Evaluated<'a> {
    match &args[0] {
        Value::Url(url) => Ok(of(url).into()),
        _ => mismatch(),
    }
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        if text.chars().any(|c| c.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let without_fragment = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = scheme(without_fragment)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            return match scheme {
                "" => Err("invalid URI for request".to_owned()),
                _ => Ok(Url {
                    scheme: scheme.to_lowercase(),
                    host: String::new(),
                    path: String::new(),
                    query: query.into(),
                }),
            };
        }
        let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        check_host(host)?;
        let path = decode(path, false).ok_or_else(|| invalid_escape(path))?;
        Ok(Url { scheme: scheme.to_lowercase(), host: host.to_owned(), path, query: query.to_owned() })
    }

    fn split_host(&self) -> (&str, &str) {
        let unbracketed =
            |host: &str| host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some();
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => {
                (if unbracketed(host) { &host[1..host.len() - 1] } else { host }, port)
            }
            _ if unbracketed(&self.host) => (&self.host[1..self.host.len() - 1], ""),
            _ => (&self.host, ""),
        }
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    match end {
        Some(0) if text.starts_with(':') => Err("missing protocol scheme".to_owned()),
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok((&text[..end], &text[end + 1..]))
        }
        Some(end) if text[end..].starts_with(':') => {
            Err("first path segment in URL cannot contain colon".to_owned())
        }
        _ => Ok(("", text)),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let after = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("missing ']' in host")?.1,
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    if !after.is_empty() && !after.strip_prefix(':').is_some_and(is_port) {
        return Err(format!("invalid port {after:?} after host"));
    }
    match host.chars().find(|c| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')) {
        Some(wrong) => Err(format!("invalid character {:?} in host name", wrong.to_string())),
        None => Ok(()),
    }
}

fn invalid_escape(text: &str) -> String {
    let escape = text.split_once('%').map_or("", |(_, rest)| rest);
    format!("invalid URL escape \"%{}\"", escape.chars().take(2).collect::<String>())
}

fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = text.get(at + 1..at + 3)?;
                found.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'+' if plus_is_space => found.push(b' '),
            byte => found.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&found).into_owned())
}

fn escaped(path: &str) -> String {
    let mut found = String::new();
    for byte in path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!*'()".contains(&byte);
        if plain { found.push(byte.into()) } else { found.push_str(&format!("%{byte:02X}")) }
    }
    found
}

fn query<'a>(text: &str) -> Value<'a> {
    let mut values: IndexMap<String, Vec<Value>> = IndexMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (decode(key, true), decode(value, true)) {
            values.entry(key).or_default().push(value.into());
        }
    }
    let entries = values
        .into_iter()
        .map(|(key, values)| (Key::String(key.as_str().into()), (Value::from(key), Value::list(values))));
    Value::Map(Map::Made(Arc::new(MadeMap { entries: entries.collect(), ..MadeMap::default() })))
}
