//! A target and its labels, as `http_sd_configs` reads them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

/// Before every label that a discovery makes.
const META: &str = "__meta_kubernetes_";

/// One address and what is known of it.
#[derive(Debug, Clone, Serialize)]
pub struct Target<'a> {
    #[serde(rename = "targets")]
    pub address: [String; 1],
    pub labels: Labels<'a>,
}

/// Labels in the order in which they were added; the last of a name counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels<'a>(Vec<(String, Cow<'a, str>)>);

impl<'a> Labels<'a> {
    /// A label of Prometheus' own, without the prefix.
    pub fn plain(&mut self, name: &str, value: &'a str) {
        self.0.push((name.to_owned(), Cow::Borrowed(value)));
    }

    /// `__meta_kubernetes_NAME`.
    pub fn add(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        self.0.push((format!("{META}{name}"), value.into()));
    }

    /// The same, unless there is nothing to say.
    pub fn add_some(&mut self, name: &str, value: &'a Value) {
        match value {
            Value::String(text) if !text.is_empty() => self.add(name, text.as_str()),
            Value::Bool(_) | Value::Number(_) => self.add(name, value.to_string()),
            _ => {}
        }
    }

    /// The namespace of the object that a target is made of.
    pub fn add_namespace(&mut self, object: &'a Value) {
        self.add_some("namespace", &object["metadata"]["namespace"]);
    }

    /// Name, labels and annotations of an object of this kind, the latter each with a mark that it is there: an empty
    /// value is as none to Prometheus.
    pub fn add_metadata(&mut self, kind: &str, object: &'a Value) {
        let metadata = &object["metadata"];
        self.add_some(&format!("{kind}_name"), &metadata["name"]);
        for (field, what) in [("labels", "label"), ("annotations", "annotation")] {
            for (name, value) in metadata[field].as_object().into_iter().flatten() {
                let name = sanitized(name);
                self.add(&format!("{kind}_{what}_{name}"), value.as_str().unwrap_or_default());
                self.add(&format!("{kind}_{what}present_{name}"), "true");
            }
        }
    }

    pub fn extend(&mut self, others: &Labels<'a>) {
        self.0.extend(others.0.iter().cloned());
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// By name; the last of a name counts.
    pub fn to_set(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone().into_owned())).collect()
    }

    #[cfg(test)]
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl Serialize for Labels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A name as a label of Prometheus may have it.
pub fn sanitized(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// `ADDRESS:PORT`, also where the address is one of IPv6.
pub fn joined(address: &str, port: impl std::fmt::Display) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// The text of a field, empty where there is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The elements of a list, or nothing.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
