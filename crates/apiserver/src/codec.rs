//! Between objects and what the store keeps.
//!
//! A stored value is the object's compact JSON with `kind`, `apiVersion` and `metadata` first and without
//! `resourceVersion`: that is the store's revision, known only once the write is committed. Because the
//! head of the JSON is fixed, reading an object back is a copy with the version spliced in: nothing is
//! parsed on the way from the disk to the client.

use bytes::Bytes;
use minik8s_store::{Entry, Revision};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::catalog::Served;
use crate::error::{ApiError, Result};
use crate::lean::Lean;

/// A body may have 3 MiB; defaults and `managedFields` add to that. Without a bound, patch upon patch could
/// make one object fill the store.
const MAX_OBJECT: usize = 4 * 1024 * 1024;

/// The object in its stored form.
pub fn encode(served: &Served, object: &Value) -> Result<Bytes> {
    let mut converted = None;
    if served.stored_as.is_some() {
        served.strategy.to_stored(converted.insert(object.clone()));
    }
    let object = converted.as_ref().unwrap_or(object);
    let version = served.stored_api_version();
    let stored = Ordered { object, stored_as: Some(&version) };
    let text = serde_json::to_vec(&stored).map_err(ApiError::internal)?;
    if text.len() > MAX_OBJECT {
        return Err(ApiError::too_large(MAX_OBJECT));
    }
    Ok(Bytes::from(text))
}

/// The object in its served form, with `resourceVersion`.
pub fn decode(served: &Served, entry: &Entry) -> Result<Value> {
    decode_value(served, &entry.value, entry.revision)
        .map_err(|e| ApiError::internal(format_args!("{} in the store: {}", entry.key, e.message)))
}

pub fn decode_value(served: &Served, value: &[u8], revision: Revision) -> Result<Value> {
    let mut object: Value = serde_json::from_slice(value).map_err(ApiError::internal)?;
    if served.stored_as.is_some() {
        served.strategy.from_stored(&mut object);
    }
    if served.defaulted_when_read {
        served.schema().apply_defaults(&mut object);
    }
    object["apiVersion"] = served.api_version.as_str().into();
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    Ok(object)
}

/// What a selector may ask about: neither `resourceVersion` nor `managedFields`.
pub fn look(served: &Served, value: &[u8]) -> Result<Value> {
    if served.stored_as.is_some() || served.defaulted_when_read {
        return decode_value(served, value, 0);
    }
    let Lean(object) = serde_json::from_slice(value).map_err(ApiError::internal)?;
    Ok(object)
}

/// Appends the object as JSON, with `resourceVersion`, to `out`.
pub fn write_object(served: &Served, value: &[u8], revision: Revision, out: &mut Vec<u8>) -> Result<()> {
    if served.stored_as.is_none() && !served.defaulted_when_read && value.starts_with(served.head.as_bytes())
    {
        let (head, tail) = value.split_at(served.head.len());
        let digits = Digits::of(revision);
        out.reserve(value.len() + 48);
        out.extend_from_slice(head);
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(digits.as_slice());
        out.extend_from_slice(b"\",");
        out.extend_from_slice(tail);
        return Ok(());
    }
    let object = decode_value(served, value, revision)?;
    serde_json::to_writer(out, &Ordered { object: &object, stored_as: None }).map_err(ApiError::internal)
}

/// The object as JSON with `kind`, `apiVersion`, `metadata` first.
pub fn to_json(object: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec(&Ordered { object, stored_as: None }).map_err(ApiError::internal)
}

struct Ordered<'a> {
    object: &'a Value,
    /// For the store: in this API version and without `resourceVersion`.
    stored_as: Option<&'a str>,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        const FIRST: [&str; 2] = ["kind", "apiVersion"];
        let Value::Object(map) = self.object else { return self.object.serialize(serializer) };
        let mut out = serializer.serialize_map(None)?;
        if let Some(kind) = map.get("kind") {
            out.serialize_entry("kind", kind)?;
        }
        match (self.stored_as, map.get("apiVersion")) {
            (Some(version), _) => out.serialize_entry("apiVersion", version)?,
            (None, Some(version)) => out.serialize_entry("apiVersion", version)?,
            (None, None) => {}
        }
        if let Some(metadata) = map.get("metadata") {
            let with_version = self.stored_as.is_none();
            out.serialize_entry("metadata", &Metadata { metadata, with_version })?;
        }
        for (key, value) in map {
            if key != "metadata" && !FIRST.contains(&key.as_str()) {
                out.serialize_entry(key, value)?;
            }
        }
        out.end()
    }
}

struct Metadata<'a> {
    metadata: &'a Value,
    with_version: bool,
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Value::Object(map) = self.metadata else {
            return self.metadata.serialize(serializer);
        };
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in map {
            if self.with_version || key != "resourceVersion" {
                out.serialize_entry(key, value)?;
            }
        }
        out.end()
    }
}

/// A number's digits without an allocation: this runs once per listed object.
struct Digits {
    buffer: [u8; 20],
    start: usize,
}

impl Digits {
    fn of(number: u64) -> Self {
        let mut digits = Digits { buffer: [0; 20], start: 20 };
        let mut rest = number;
        loop {
            digits.start -= 1;
            digits.buffer[digits.start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return digits;
            }
        }
    }

    fn as_slice(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}
