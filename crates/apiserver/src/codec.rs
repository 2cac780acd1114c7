//! Between objects and what the store keeps.
//!
//! A stored value is the object's compact JSON with `kind`, `apiVersion` and `metadata` first and without
//! `resourceVersion`: that is the store's revision, known only once the write is committed. Because the
//! head of the JSON is fixed, reading an object back is a copy with the version spliced in: nothing is
//! parsed on the way from the disk to the client.

use bytes::Bytes;
use minik8s_api::Part;
use minik8s_store::{Entry, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::catalog::Served;
use crate::error::{ApiError, Result};
use crate::go_json;
use crate::managed_fields::{self, Split, WithoutManagedFields};

/// A body may have 3 MiB; defaults and `managedFields` add to that. Without a bound, patch upon patch could
/// make one object fill the store.
const MAX_OBJECT: usize = 4 * 1024 * 1024;

/// The object in its stored form.
pub fn encode(served: &Served, object: &Value) -> Result<Bytes> {
    encode_with(served, object, None)
}

/// The object, which holds no `managedFields`, in its stored form with these.
pub fn encode_with(served: &Served, object: &Value, managed: Option<&RawValue>) -> Result<Bytes> {
    let mut converted = None;
    if served.stored_as.is_some() {
        served.strategy.to_stored(converted.insert(object.clone()));
    }
    let object = converted.as_ref().unwrap_or(object);
    let version = served.stored_api_version();
    let stored = Ordered { object, stored_as: Some(&version), managed };
    let text = go_json::to_vec(&stored).map_err(ApiError::internal)?;
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

/// As [`decode`], with `managedFields` beside the object.
pub fn decode_split(served: &Served, entry: &Entry) -> Result<Split> {
    let mut split: Split = serde_json::from_slice(&entry.value)
        .map_err(|e| ApiError::internal(format_args!("{} in the store: {e}", entry.key)))?;
    to_served(served, &mut split.object, entry.revision);
    Ok(split)
}

pub fn decode_value(served: &Served, value: &[u8], revision: Revision) -> Result<Value> {
    let mut object: Value = serde_json::from_slice(value).map_err(ApiError::internal)?;
    to_served(served, &mut object, revision);
    Ok(object)
}

fn to_served(served: &Served, object: &mut Value, revision: Revision) {
    if served.stored_as.is_some() {
        served.strategy.from_stored(object);
    }
    if served.defaulted_when_read {
        served.schema().apply_defaults(object);
    }
    object["apiVersion"] = served.api_version.as_str().into();
    object["metadata"]["resourceVersion"] = revision.to_string().into();
}

/// Whether a stored object is on its way out. The rest of it is passed over.
pub fn is_terminating(entry: &Entry) -> Result<bool> {
    #[derive(Deserialize)]
    struct Whole {
        #[serde(default)]
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        deletion_timestamp: Option<IgnoredAny>,
    }
    let whole: Whole = serde_json::from_slice(&entry.value).map_err(ApiError::internal)?;
    Ok(whole.metadata.deletion_timestamp.is_some())
}

/// What a selector may ask about, and only its `parts` if they are known: neither `resourceVersion` nor
/// `managedFields`.
pub fn look(served: &Served, value: &[u8], parts: Option<&[Part]>) -> Result<Value> {
    if served.stored_as.is_some() || served.defaulted_when_read {
        return decode_value(served, value, 0);
    }
    match parts {
        Some(parts) => managed_fields::read_parts(value, parts),
        None => serde_json::from_slice(value).map(|WithoutManagedFields(object)| object),
    }
    .map_err(ApiError::internal)
}

/// Whether a stored value only lacks its `resourceVersion` to be what clients get.
pub fn is_served_form(served: &Served, value: &[u8]) -> bool {
    served.stored_as.is_none() && !served.defaulted_when_read && value.starts_with(served.head.as_bytes())
}

/// Appends the object as JSON, with `resourceVersion`, to `out`.
pub fn write_object(served: &Served, value: &[u8], revision: Revision, out: &mut Vec<u8>) -> Result<()> {
    if is_served_form(served, value) {
        let (head, tail) = value.split_at(served.head.len());
        out.reserve(value.len() + 48);
        out.extend_from_slice(head);
        write_version(revision, out);
        out.extend_from_slice(tail);
        return Ok(());
    }
    let object = decode_value(served, value, revision)?;
    serde_json::to_writer(out, &Ordered { object: &object, stored_as: None, managed: None })
        .map_err(ApiError::internal)
}

/// Appends the `resourceVersion` that stored metadata lacks, and a comma: every object has a name after it.
pub fn write_version(revision: Revision, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(Digits::of(revision).as_slice());
    out.extend_from_slice(b"\",");
}

/// The object as JSON with `kind`, `apiVersion`, `metadata` first.
pub fn to_json(object: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec(&Ordered { object, stored_as: None, managed: None }).map_err(ApiError::internal)
}

struct Ordered<'a> {
    object: &'a Value,
    /// For the store: in this API version and without `resourceVersion`.
    stored_as: Option<&'a str>,
    /// `managedFields` that the object does not hold itself.
    managed: Option<&'a RawValue>,
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
            let managed = self.managed;
            out.serialize_entry("metadata", &Metadata { metadata, with_version, managed })?;
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
    managed: Option<&'a RawValue>,
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
        if let Some(managed) = self.managed {
            out.serialize_entry("managedFields", managed)?;
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
