//! What a request of OpenWhisk's API is about, by its path, its query and its key. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::AUTHORIZATION;
use minik8s_api::HandlerRequest;

use super::{Refused, Result};

pub const ROOT: &str = "/openwhisk/";
/// Stands for the namespace of the key.
const OWN: &str = "_";
/// Kinds of OpenWhisk's that there are none of, and that clients list.
const EMPTY: [&str; 3] = ["packages", "triggers", "rules"];

#[derive(Debug, PartialEq, Eq)]
pub struct Path {
    pub namespace: String,
    pub wanted: Wanted,
    query: Vec<(String, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    Namespaces,
    Actions,
    Action(String),
    Activations,
    /// And which part of it: all, `result` or `logs`.
    Activation(String, String),
    /// Of a kind that is not served; whether a list was asked for.
    Nothing(bool),
}

impl Path {
    pub fn parse(request: &HandlerRequest) -> Result<Path> {
        let unknown = || Refused(StatusCode::NOT_FOUND, format!("there is nothing at {}", request.path));
        let rest = request.path.strip_prefix(ROOT).ok_or_else(unknown)?;
        let decoded: Vec<String> = rest.trim_end_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (namespace, wanted) = match parts.as_slice() {
            ["api", "v1", "namespaces"] => (OWN, Wanted::Namespaces),
            ["api", "v1", "namespaces", namespace, rest @ ..] => {
                (*namespace, wanted(rest).ok_or_else(unknown)?)
            }
            _ => return Err(unknown()),
        };
        let namespace = match namespace {
            OWN => key_namespace(request).ok_or_else(|| {
                let told = "_ stands for the namespace of the key, which is NAMESPACE:TOKEN; this request has no such key";
                Refused(StatusCode::BAD_REQUEST, told.to_owned())
            })?,
            named => named.to_owned(),
        };
        if !is_name(&namespace) {
            return Err(Refused(
                StatusCode::BAD_REQUEST,
                format!("{namespace:?} is not the name of a namespace"),
            ));
        }
        if let Wanted::Action(name) | Wanted::Activation(name, _) = &wanted
            && !is_name(name)
        {
            let told = format!("{name:?}: names have lower case letters, digits and '-'");
            return Err(Refused(StatusCode::BAD_REQUEST, told));
        }
        let query = request.query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Ok(Path { namespace, wanted, query: query.collect() })
    }

    pub fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| matches!(value, "" | "true" | "1"))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Whether it is that of an action, which has its code in its body.
pub fn is_action(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    matches!(parts.as_slice(), ["openwhisk", "api", "v1", "namespaces", _, "actions", _])
}

fn wanted(parts: &[&str]) -> Option<Wanted> {
    Some(match parts {
        ["actions"] => Wanted::Actions,
        ["actions", name] => Wanted::Action((*name).to_owned()),
        ["activations"] => Wanted::Activations,
        ["activations", id] => Wanted::Activation((*id).to_owned(), String::new()),
        ["activations", id, part @ ("result" | "logs")] => {
            Wanted::Activation((*id).to_owned(), (*part).to_owned())
        }
        [kind] if EMPTY.contains(kind) => Wanted::Nothing(true),
        [kind, _] if EMPTY.contains(kind) => Wanted::Nothing(false),
        _ => return None,
    })
}

/// The first half of `NAMESPACE:TOKEN`. The second one has been checked before anything here is asked.
fn key_namespace(request: &HandlerRequest) -> Option<String> {
    let header = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = header.trim().split_once(' ')?;
    let text = STANDARD.decode(text.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let text = String::from_utf8(text).ok()?;
    text.split_once(':').map(|(namespace, _)| namespace.to_owned())
}

/// Of what can be part of a path without being anything else.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
