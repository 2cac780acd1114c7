//! CloudEvents 1.0 as HTTP carries them: binary (attributes are headers), structured (one JSON object) and batched.
//!
//! Pure. Every event is kept in its JSON form, whatever it came in, so that targets see one shape.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::{Map, Value};
use thiserror::Error;

pub const STRUCTURED: &str = "application/cloudevents+json";
pub const BATCH: &str = "application/cloudevents-batch+json";
const PREFIX: &str = "ce-";
const REQUIRED: [&str; 4] = ["specversion", "id", "source", "type"];
/// Events of one request.
const LARGEST_BATCH: usize = 100;
const LONGEST_ATTRIBUTE: usize = 4096;

/// An event in its JSON form.
#[derive(Debug, Clone, PartialEq)]
pub struct Event(pub Value);

/// Why a request is no CloudEvent.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BadEvent {
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    #[error("the body of {STRUCTURED} must be an object, that of {BATCH} a list of them")]
    Shape,
    #[error("a batch has at most {LARGEST_BATCH} events")]
    TooMany,
    #[error(
        "the attribute {0} is missing: send it as header ce-{0}, or in the object with content-type {STRUCTURED}"
    )]
    Missing(&'static str),
    #[error("specversion {0:?} is not known; 1.0 is")]
    Version(String),
    #[error(
        "attribute {0:?}: names are lower-case letters and digits, values are texts, numbers or true/false of at most {LONGEST_ATTRIBUTE} bytes"
    )]
    Attribute(String),
    #[error("data_base64 is not base64, or data is there as well")]
    Data,
    #[error("{STRUCTURED} in another format than JSON is not known")]
    Format,
}

impl Event {
    /// Text of an attribute, empty where it has none.
    pub fn attribute(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// Source and id name an event: the same pair is the same event.
    pub fn identity(&self) -> String {
        format!("{}\n{}", self.attribute("source"), self.attribute("id"))
    }
}

/// Whether a request says that it carries CloudEvents.
pub fn is_cloud_event(headers: &HeaderMap) -> bool {
    headers.contains_key("ce-specversion") || media_type(headers).starts_with("application/cloudevents")
}

/// All events of a request, or why none of them counts.
pub fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Event>, BadEvent> {
    match media_type(headers).as_str() {
        STRUCTURED => Ok(vec![checked(json(body)?)?]),
        BATCH => {
            let Value::Array(events) = json(body)? else { return Err(BadEvent::Shape) };
            if events.len() > LARGEST_BATCH {
                return Err(BadEvent::TooMany);
            }
            events.into_iter().map(checked).collect()
        }
        other if other.starts_with("application/cloudevents") => Err(BadEvent::Format),
        _ => Ok(vec![binary(headers, body)?]),
    }
}

/// What a body is as `data`: JSON where it says so, text where it is one, else base64 in a field of its own.
pub fn data(headers: &HeaderMap, body: &[u8]) -> Result<(&'static str, Value), BadEvent> {
    let kind = media_type(headers);
    if kind == "application/json" || kind.ends_with("+json") {
        return Ok(("data", json(body)?));
    }
    Ok(match std::str::from_utf8(body) {
        Ok(text) => ("data", text.into()),
        Err(_) => ("data_base64", STANDARD.encode(body).into()),
    })
}

fn binary(headers: &HeaderMap, body: &[u8]) -> Result<Event, BadEvent> {
    let mut event = Map::new();
    for (name, value) in headers {
        if let Some(attribute) = name.as_str().strip_prefix(PREFIX) {
            let value = value.to_str().map_err(|_| BadEvent::Attribute(attribute.to_owned()))?;
            event.insert(attribute.to_owned(), unescape(value).into());
        }
    }
    if !body.is_empty() {
        if let Some(kind) = headers.get("content-type").and_then(|kind| kind.to_str().ok()) {
            event.insert("datacontenttype".to_owned(), kind.into());
        }
        let (field, value) = data(headers, body)?;
        event.insert(field.to_owned(), value);
    }
    checked(Value::Object(event))
}

fn checked(event: Value) -> Result<Event, BadEvent> {
    let Value::Object(fields) = &event else { return Err(BadEvent::Shape) };
    for required in REQUIRED {
        if fields.get(required).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(BadEvent::Missing(required));
        }
    }
    if fields["specversion"] != "1.0" {
        return Err(BadEvent::Version(fields["specversion"].as_str().unwrap_or_default().to_owned()));
    }
    for (name, value) in fields.iter().filter(|(name, _)| !matches!(name.as_str(), "data" | "data_base64")) {
        let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let simple = match value {
            Value::String(text) => text.len() <= LONGEST_ATTRIBUTE,
            Value::Bool(_) | Value::Number(_) | Value::Null => true,
            Value::Array(_) | Value::Object(_) => false,
        };
        if !named || !simple {
            return Err(BadEvent::Attribute(name.clone()));
        }
    }
    if let Some(encoded) = fields.get("data_base64") {
        let good = encoded.as_str().is_some_and(|text| STANDARD.decode(text).is_ok());
        if !good || fields.contains_key("data") {
            return Err(BadEvent::Data);
        }
    }
    Ok(Event(event))
}

fn json(body: &[u8]) -> Result<Value, BadEvent> {
    serde_json::from_slice(body).map_err(|error| BadEvent::NotJson(error.to_string()))
}

/// Without parameters, in lower case.
fn media_type(headers: &HeaderMap) -> String {
    let whole = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Header values are percent-encoded where they are not plain.
fn unescape(value: &str) -> String {
    let value = value.trim().trim_matches('"');
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let digits =
            after.get(..2).filter(|_| *first == b'%').and_then(|pair| std::str::from_utf8(pair).ok());
        match digits.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    const BINARY: &[(&str, &str)] = &[
        ("ce-specversion", "1.0"),
        ("ce-id", "7"),
        ("ce-source", "/shop"),
        ("ce-type", "com.shop.order"),
        ("ce-who", "J%C3%BCrgen"),
        ("content-type", "application/json; charset=utf-8"),
    ];

    #[test]
    fn all_three_modes_give_the_same_event() {
        let expected = json!({"specversion": "1.0", "id": "7", "source": "/shop", "type": "com.shop.order", "who": "Jürgen",
            "datacontenttype": "application/json; charset=utf-8", "data": {"a": 1}});
        assert_eq!(parse(&headers(BINARY), b"{\"a\": 1}").unwrap(), [Event(expected.clone())]);
        let one = headers(&[("content-type", "application/cloudevents+json; charset=utf-8")]);
        assert_eq!(parse(&one, expected.to_string().as_bytes()).unwrap(), [Event(expected.clone())]);
        let many = headers(&[("content-type", BATCH)]);
        let batch = json!([expected, expected]).to_string();
        assert_eq!(parse(&many, batch.as_bytes()).unwrap().len(), 2);
        assert_eq!(parse(&many, b"[]").unwrap(), []);
        let bytes = headers(&[&BINARY[..4], &[("content-type", "image/png")]].concat());
        assert_eq!(parse(&bytes, b"\xff\xd8").unwrap()[0].0["data_base64"], "/9g=");
        assert_eq!(parse(&headers(&BINARY[..4]), b"").unwrap()[0].0.get("data"), None);
    }

    #[test]
    fn what_is_no_event_is_told() {
        let structured =
            |text: &str| parse(&headers(&[("content-type", STRUCTURED)]), text.as_bytes()).unwrap_err();
        assert!(matches!(structured("{"), BadEvent::NotJson(_)));
        assert_eq!(structured("[]"), BadEvent::Shape);
        assert_eq!(
            structured(r#"{"specversion": "1.0", "id": "", "source": "s", "type": "t"}"#),
            BadEvent::Missing("id")
        );
        let with = |more: &str| {
            structured(&format!(r#"{{"specversion": "1.0", "id": "1", "source": "s", "type": "t", {more}}}"#))
        };
        assert_eq!(with(r#""Bad_Name": 1"#), BadEvent::Attribute("Bad_Name".to_owned()));
        assert_eq!(with(r#""x": {}"#), BadEvent::Attribute("x".to_owned()));
        assert_eq!(with(r#""data_base64": "?""#), BadEvent::Data);
        assert_eq!(
            structured(r#"{"specversion": "0.3", "id": "1", "source": "s", "type": "t"}"#),
            BadEvent::Version("0.3".to_owned())
        );
        assert_eq!(parse(&headers(&[]), b"{}").unwrap_err(), BadEvent::Missing("specversion"));
        assert_eq!(
            parse(&headers(&[("content-type", "application/cloudevents+avro")]), b"").unwrap_err(),
            BadEvent::Format
        );
        let many = vec![json!({}); 101];
        assert_eq!(
            parse(&headers(&[("content-type", BATCH)]), json!(many).to_string().as_bytes()).unwrap_err(),
            BadEvent::TooMany
        );
    }

    /// The first line is the content type, the second an attribute's value.
    #[test]
    fn fuzz_cloud_events() {
        let inputs: [&[u8]; 3] = [
            b"application/cloudevents+json\n1.0\n{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\",\"data_base64\":\"AA==\"}",
            b"application/cloudevents-batch+json\n1.0\n[{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\"}]",
            b"text/plain; charset=utf-8\nJ%C3%BCrgen\nhello",
        ];
        let words = ["%", "%C3", "\"data\":", "null", "application/cloudevents", ";", "\n", "sha256="];
        let corpus = minik8s_fuzz::Corpus { inputs: &inputs, words: &words };
        minik8s_fuzz::fuzz("CloudEvents", 1, corpus, |input| {
            let mut parts = input.splitn(3, |byte| *byte == b'\n');
            let mut next = || parts.next().unwrap_or_default();
            let (kind, value, body) = (next(), next(), next());
            let mut all = headers(&BINARY[..4]);
            for (name, value) in [("content-type", kind), ("ce-subject", value), ("x-signature-256", value)] {
                if let Ok(value) = http::HeaderValue::from_bytes(value) {
                    all.insert(name, value);
                }
            }
            for event in parse(&all, body).unwrap_or_default() {
                assert!(REQUIRED.iter().all(|name| !event.attribute(name).is_empty()), "{event:?}");
            }
            assert!(!super::super::signature::is_signed(&all, body, b"a key that nobody guesses"));
        });
    }
}
