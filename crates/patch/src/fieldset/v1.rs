//! FieldsV1, the JSON form of a field set.
//!
//! `{"f:spec": {"f:replicas": {}, "f:ports": {".": {}, "k:{\"port\":80}": {}}}}`: an empty object is a
//! member; a node with children is a member too when it holds `"."`.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{FieldSet, Node, PathElement};

/// Deeper than any object the API accepts; keeps hostile input from recursing without bound.
const MAX_DEPTH: usize = 128;

/// Why a FieldsV1 document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsV1Error {
    #[error("a field set must be a JSON object")]
    NotAnObject,
    #[error("{0:?} is no path element: expected \"f:\", \"k:\", \"v:\" or \"i:\" and its content")]
    Element(String),
    #[error("the field set is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

impl FieldSet {
    /// Reads FieldsV1.
    pub fn from_fields_v1(fields: &Value) -> Result<FieldSet, FieldsV1Error> {
        Ok(read(fields, 0)?.0)
    }

    /// Writes FieldsV1.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(print(self, false))
    }
}

/// FieldsV1 as text, without a `Value` on the way.
impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Below(0).deserialize(deserializer).map(|(set, _)| set)
    }
}

impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Printed { set: self, member: false }.serialize(serializer)
    }
}

/// The contents of a node at this depth: its children, and whether it is itself a member.
struct Below(usize);

impl<'de> DeserializeSeed<'de> for Below {
    type Value = (FieldSet, bool);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Below {
    type Value = (FieldSet, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field set")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = Found::at(self.0).map_err(A::Error::custom)?;
        while let Some(text) = fields.next_key::<Cow<'de, str>>()? {
            match found.element(&text).map_err(A::Error::custom)? {
                Some(element) => {
                    let (children, member) = fields.next_value_seed(Below(self.0 + 1))?;
                    found.set.push_owned(element, member, children);
                }
                None => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found.finish())
    }
}

/// What is read of one level.
struct Found {
    set: FieldSet,
    member: bool,
}

impl Found {
    fn at(depth: usize) -> Result<Self, FieldsV1Error> {
        match depth > MAX_DEPTH {
            true => Err(FieldsV1Error::TooDeep),
            false => Ok(Found { set: FieldSet::default(), member: false }),
        }
    }

    /// The element whose contents come next, if they are to be read.
    fn element(&mut self, text: &str) -> Result<Option<PathElement>, FieldsV1Error> {
        if text == "." {
            self.member = true;
            return Ok(None);
        }
        read_element(text)
    }

    fn finish(mut self) -> (FieldSet, bool) {
        self.set.sort();
        join_duplicates(&mut self.set);
        let member = self.member || self.set.is_empty();
        (self.set, member)
    }
}

/// A node's contents, as they are printed.
struct Printed<'a> {
    set: &'a FieldSet,
    member: bool,
}

impl Serialize for Printed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(Some(self.set.nodes.len() + usize::from(self.member)))?;
        if self.member {
            fields.serialize_entry(".", &Map::new())?;
        }
        for Node { element, member, children } in &self.set.nodes {
            let below = Printed { set: children, member: *member && !children.is_empty() };
            fields.serialize_entry(&print_element(element), &below)?;
        }
        fields.end()
    }
}

/// The children, and whether the node itself is a member.
fn read(fields: &Value, depth: usize) -> Result<(FieldSet, bool), FieldsV1Error> {
    let Value::Object(fields) = fields else { return Err(FieldsV1Error::NotAnObject) };
    let mut found = Found::at(depth)?;
    for (text, below) in fields {
        if let Some(element) = found.element(text)? {
            let (children, member) = read(below, depth + 1)?;
            found.set.push_owned(element, member, children);
        }
    }
    Ok(found.finish())
}

/// `None` for a kind of element that a later version may have invented: upstream skips those too.
fn read_element(text: &str) -> Result<Option<PathElement>, FieldsV1Error> {
    let bad = || FieldsV1Error::Element(text.to_owned());
    let (kind, content) = text.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(bad)?;
    let json = || serde_json::from_str::<Value>(content).map_err(|_| bad());
    Ok(Some(match kind {
        "f" => PathElement::field(content),
        "v" => PathElement::Value(json()?),
        "i" => PathElement::Index(content.parse().map_err(|_| bad())?),
        "k" => {
            let Value::Object(fields) = json()? else { return Err(bad()) };
            let mut fields: Vec<(Box<str>, Value)> =
                fields.into_iter().map(|(name, value)| (name.into_boxed_str(), value)).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            PathElement::Key(fields)
        }
        _ => return Ok(None),
    }))
}

/// Two spellings of one element (`v:1` and `v:1.0`) become one node.
fn join_duplicates(set: &mut FieldSet) {
    set.nodes.dedup_by(|next, kept| {
        let same = next.element == kept.element;
        if same {
            kept.member |= next.member;
            kept.children = kept.children.union(&next.children);
        }
        same
    });
}

fn print(set: &FieldSet, member: bool) -> Map<String, Value> {
    let mut fields = Map::with_capacity(set.nodes.len() + usize::from(member));
    if member {
        fields.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for Node { element, member, children } in &set.nodes {
        let below = print(children, *member && !children.is_empty());
        fields.insert(print_element(element), Value::Object(below));
    }
    fields
}

fn print_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => {
            let mut text = String::with_capacity(name.len() + 2);
            text.push_str("f:");
            text.push_str(name);
            text
        }
        PathElement::Value(value) => format!("v:{value}"),
        PathElement::Index(index) => format!("i:{index}"),
        PathElement::Key(fields) => {
            let mut text = String::from("k:{");
            for (i, (name, value)) in fields.iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                // Writing to a String cannot fail.
                let _ = write!(text, "{comma}{}:{value}", Value::String(name.to_string()));
            }
            text.push('}');
            text
        }
    }
}
