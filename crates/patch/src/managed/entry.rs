//! One entry of `managedFields`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::fieldset::{FieldSet, FieldsV1Error};

/// A manager and what it owns.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: Option<String>,
    /// When the entry last changed, to the second.
    pub time: Option<Timestamp>,
    pub fields: FieldSet,
    pub(super) source: Source,
}

/// What an entry was read from, as long as nothing about it has changed: it need not be written anew then.
#[derive(Debug, Clone, Default)]
pub(super) enum Source {
    #[default]
    None,
    Text(Box<RawValue>),
    /// The fields were passed over; there are some.
    Unread(Box<RawValue>),
}

/// Says nothing about an entry that its other fields do not.
impl PartialEq for Source {
    fn eq(&self, _: &Source) -> bool {
        true
    }
}

/// An entry as text, in the order in which it is written.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Text<'a, F> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    manager: Option<Cow<'a, str>>,
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    time: Option<Cow<'a, str>>,
    #[serde(borrow)]
    fields_type: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields_v1: Option<F>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    subresource: Option<Cow<'a, str>>,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Source::Text(unchanged) | Source::Unread(unchanged) = &self.source {
            return unchanged.serialize(serializer);
        }
        let text = Text {
            manager: Some(Cow::Borrowed(&*self.manager)).filter(|manager| !manager.is_empty()),
            operation: self.operation.name().into(),
            api_version: Cow::Borrowed(&self.api_version),
            time: self.time_text().map(Cow::Owned),
            fields_type: "FieldsV1".into(),
            fields_v1: Some(&self.fields),
            subresource: self.subresource.as_deref().map(Cow::Borrowed),
        };
        text.serialize(serializer)
    }
}

/// How the manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

/// Why an entry cannot be read. The words are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("managedFields must be a list of objects")]
    NotAList,
    #[error("managedFields has too many entries: {0}")]
    TooMany(usize),
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing or invalid fieldsType in managed fields entry {0}: must be FieldsV1")]
    FieldsType(usize),
    #[error("{0} in managed fields entry {1} must be a string")]
    NotAString(&'static str, usize),
    #[error("invalid time in managed fields entry {0}")]
    Time(usize),
    #[error("invalid fieldsV1 in managed fields entry {1}")]
    Fields(#[source] FieldsV1Error, usize),
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

impl Entry {
    /// Reads the entry at `index`.
    pub fn decode(entry: &Value, index: usize) -> Result<Entry, EntryError> {
        let Value::Object(entry) = entry else { return Err(EntryError::NotAList) };
        let operation = match entry.get("operation").and_then(Value::as_str) {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return Err(EntryError::Operation),
        };
        let api_version = text(entry, "apiVersion", index)?.unwrap_or_default();
        if api_version.is_empty() {
            return Err(EntryError::ApiVersion);
        }
        if text(entry, "fieldsType", index)? != Some("FieldsV1") {
            return Err(EntryError::FieldsType(index));
        }
        let time = match text(entry, "time", index)? {
            Some(time) => Some(time.parse().map_err(|_| EntryError::Time(index))?),
            None => None,
        };
        let fields = match entry.get("fieldsV1") {
            Some(Value::Null) | None => FieldSet::default(),
            Some(fields) => {
                FieldSet::from_fields_v1(fields).map_err(|error| EntryError::Fields(error, index))?
            }
        };
        Ok(Entry {
            manager: text(entry, "manager", index)?.unwrap_or_default().to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: text(entry, "subresource", index)?.filter(|s| !s.is_empty()).map(str::to_owned),
            time,
            fields,
            source: Source::default(),
        })
    }

    /// Reads an entry as the store holds it.
    pub(super) fn read(text: &RawValue) -> Option<Entry> {
        let (fields, entry) = Entry::read_as(text)?;
        Some(Entry { fields: fields.unwrap_or_default(), source: Source::Text(text.to_owned()), ..entry })
    }

    /// Reads all but the fields, which must be some.
    pub(super) fn read_head(text: &RawValue) -> Option<Entry> {
        let (_, entry) = Entry::read_as::<IgnoredAny>(text)?;
        Some(Entry { source: Source::Unread(text.to_owned()), ..entry })
    }

    fn read_as<'a, F: Deserialize<'a>>(text: &'a RawValue) -> Option<(Option<F>, Entry)> {
        let read: Text<'_, F> = serde_json::from_str(text.get()).ok()?;
        let operation = match &*read.operation {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        if read.api_version.is_empty() || read.fields_type != "FieldsV1" {
            return None;
        }
        let time = match read.time {
            Some(time) => Some(time.parse().ok()?),
            None => None,
        };
        let entry = Entry {
            manager: read.manager.unwrap_or_default().into_owned(),
            operation,
            api_version: read.api_version.into_owned(),
            subresource: read.subresource.filter(|s| !s.is_empty()).map(Cow::into_owned),
            time,
            fields: FieldSet::default(),
            source: Source::None,
        };
        Some((read.fields_v1, entry))
    }

    /// Whether it owns nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && !self.is_unread()
    }

    pub(super) fn is_unread(&self) -> bool {
        matches!(self.source, Source::Unread(_))
    }

    pub fn encode(self) -> Value {
        let time = self.time_text();
        let mut entry = Map::with_capacity(7);
        let mut put = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
        if !self.manager.is_empty() {
            put("manager", Value::String(self.manager));
        }
        put("operation", Value::String(self.operation.name().to_owned()));
        put("apiVersion", Value::String(self.api_version));
        if let Some(time) = time {
            put("time", Value::String(time));
        }
        put("fieldsType", Value::String("FieldsV1".to_owned()));
        put("fieldsV1", self.fields.to_fields_v1());
        if let Some(subresource) = self.subresource {
            put("subresource", Value::String(subresource));
        }
        Value::Object(entry)
    }

    fn time_text(&self) -> Option<String> {
        self.time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }

    /// Whether both are the same manager. An applier is one manager in all versions of a kind, an updater
    /// one per version.
    pub fn same_manager(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The order of entries in an object: appliers first, then by time.
    pub(super) fn order(&self) -> impl Ord + '_ {
        let seconds = self.time.map_or(0, Timestamp::as_second);
        (self.operation, seconds, &self.manager, &self.api_version, &self.subresource)
    }
}

fn text<'a>(
    entry: &'a Map<String, Value>,
    name: &'static str,
    index: usize,
) -> Result<Option<&'a str>, EntryError> {
    match entry.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(EntryError::NotAString(name, index)),
    }
}
