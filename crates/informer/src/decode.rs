//! An object read leniently: what cannot be read is left out and named.
//!
//! The strict reader goes first, so that objects that are as they should be cost nothing. After it fails, the value
//! that it stumbled over is removed and it tries again. The number of tries is bounded: after some, the removed parts
//! become larger (the list that holds the value, then the whole of `spec` or `status`), and at last the header is all
//! that is left. It never removes what identifies an object, and never logs.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::position::{Step, locate};

/// Tries that remove exactly the value that could not be read.
const VALUES: usize = 16;
/// Tries, those included, after which only the header is left; before that the value's surroundings go.
const TRIES: usize = 24;

#[derive(Debug, Clone, PartialEq)]
pub struct Decoded<K> {
    pub object: K,
    /// Empty for nearly every object.
    pub ignored: Vec<Ignored>,
}

impl<K> Decoded<K> {
    /// Whether something at or below this field, such as `spec`, could not be read.
    pub fn ignores(&self, field: &str) -> bool {
        self.ignored.iter().any(|ignored| ignored.is_of(field))
    }
}

/// A part of an object that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Such as `status.conditions[0]`; `*` for everything but the header.
    pub path: String,
    pub error: String,
}

impl Ignored {
    pub fn is_of(&self, field: &str) -> bool {
        let below = self.path.strip_prefix(field);
        self.path == "*" || below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.error)
    }
}

/// Fails only if the text is no JSON object, or if not even the object's header can be read.
pub fn decode<K: DeserializeOwned>(text: &[u8]) -> serde_json::Result<Decoded<K>> {
    match serde_json::from_slice(text) {
        Ok(object) => Ok(Decoded { object, ignored: Vec::new() }),
        Err(error) if error.is_data() => prune(serde_json::from_slice(text)?, error),
        Err(error) => Err(error),
    }
}

fn prune<K: DeserializeOwned>(mut value: Value, first: serde_json::Error) -> serde_json::Result<Decoded<K>> {
    if !value.is_object() {
        return Err(first);
    }
    let mut ignored = Vec::new();
    let mut last = first.to_string();
    for tries in 0..TRIES {
        // As text again: each further kind of reader is compiled once more for every type there is.
        let text = serde_json::to_vec(&value)?;
        let error = match serde_json::from_slice(&text) {
            Ok(object) => return Ok(Decoded { object, ignored }),
            Err(error) => error,
        };
        let mut path = locate(&text, error.column());
        last = reason(&error);
        if tries >= VALUES {
            // Half of the remaining tries for the lists, the others for whole fields of the object.
            let length = if tries < VALUES.midpoint(TRIES) { path.len().saturating_sub(1) } else { 1 };
            path.truncate(length.max(1));
        }
        if !remove(&mut value, &path) {
            break;
        }
        ignored.push(Ignored { path: shown(&path), error: last.clone() });
    }
    let object = serde_json::from_slice(&serde_json::to_vec(&header(value))?)?;
    ignored.push(Ignored { path: "*".to_owned(), error: last });
    Ok(Decoded { object, ignored })
}

/// Without where in the text it is, which nobody but this module has seen.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.push_str(&format!(".{key}")),
        }
    }
    text
}

/// Whether there was something that may go.
fn remove(value: &mut Value, path: &[Step]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    if identifies(path) {
        return false;
    }
    let mut at = value;
    for step in parents {
        let next = match step {
            Step::Key(key) => at.get_mut(key),
            Step::Index(index) => at.get_mut(index),
        };
        let Some(next) = next else { return false };
        at = next;
    }
    match (at, last) {
        (Value::Object(fields), Step::Key(key)) => fields.remove(key).is_some(),
        (Value::Array(items), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

/// Without these nobody could tell which object it is.
fn identifies(path: &[Step]) -> bool {
    let [Step::Key(first), rest @ ..] = path else { return false };
    match rest {
        [] => matches!(first.as_str(), "apiVersion" | "kind" | "metadata"),
        [Step::Key(field)] if first == "metadata" => IDENTITY.contains(&field.as_str()),
        _ => false,
    }
}

const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

fn header(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let kept = |(name, _): &(String, Value)| matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
    let mut header: serde_json::Map<String, Value> = fields.into_iter().filter(kept).collect();
    if let Some(Value::Object(metadata)) = header.get_mut("metadata") {
        metadata.retain(|name, _| IDENTITY.contains(&name.as_str()) || name == "deletionTimestamp");
    }
    Value::Object(header)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    fn service(text: Value) -> Decoded<Service> {
        decode(text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn object_as_it_should_be_loses_nothing() {
        let text = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
        let decoded = service(text.clone());
        assert_eq!(decoded.ignored, []);
        assert_eq!(decoded.object, serde_json::from_value(text).unwrap());
    }

    #[test]
    fn part_that_cannot_be_read_is_named_and_the_rest_stays() {
        let check = |odd: Value, clean: Value, paths: &[&str]| {
            let decoded = service(odd.clone());
            let seen: Vec<&str> = decoded.ignored.iter().map(|ignored| ignored.path.as_str()).collect();
            assert_eq!(seen, paths, "{odd}");
            assert_eq!(decoded.object, serde_json::from_value(clean).unwrap(), "{odd}");
        };
        let condition = json!({"type": "B", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        check(
            json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.1"},
                   "status": {"conditions": [{"type": "A", "status": "True"}, condition]}}),
            json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.1"},
                   "status": {"conditions": [condition]}}),
            &["status.conditions[0]"],
        );
        check(
            json!({"metadata": {"name": "a", "creationTimestamp": "soon", "labels": 5}, "spec": {"ports": [
                {"port": "eighty"}, {"port": 99999999999i64}, {"port": 80}]}}),
            json!({"metadata": {"name": "a"}, "spec": {"ports": [{}, {}, {"port": 80}]}}),
            &["metadata.creationTimestamp", "metadata.labels", "spec.ports[0].port", "spec.ports[1].port"],
        );
        check(json!({"metadata": {"name": "a"}, "spec": []}), json!({"metadata": {"name": "a"}}), &["spec"]);
    }

    #[test]
    fn object_with_many_bad_parts_costs_a_bounded_number_of_tries() {
        let conditions: Vec<Value> = (0..5000).map(|n| json!({"type": n.to_string()})).collect();
        let decoded = service(json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.1"},
            "status": {"conditions": conditions}}));
        assert!(decoded.ignored.len() <= TRIES + 1, "{}", decoded.ignored.len());
        assert_eq!(decoded.object.spec.unwrap().cluster_ip.as_deref(), Some("10.0.0.1"));
        assert_eq!(decoded.object.status.unwrap().conditions, None);
    }

    #[test]
    fn text_that_is_no_such_object_is_refused() {
        for text in
            ["5", "[]", "null", "\"a\"", "{", "", "{\"metadata\": {\"name\": 5}}", "{\"kind\": \"Pod\"}"]
        {
            assert!(decode::<Service>(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn ignored_knows_its_field() {
        let at = |path: &str| Ignored { path: path.to_owned(), error: String::new() };
        assert!(at("spec").is_of("spec") && at("spec.a").is_of("spec") && at("spec[0]").is_of("spec"));
        assert!(at("*").is_of("spec") && !at("specs").is_of("spec") && !at("status.spec").is_of("spec"));
    }
}
