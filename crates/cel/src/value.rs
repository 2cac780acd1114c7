//! Values while an expression runs. What comes from an object is borrowed from it and converted when it is looked
//! at: a field that no expression reads costs nothing.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use base64::Engine;
use indexmap::IndexMap;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::Value as Json;

use crate::declaration::{Declaration, ListKind};
use crate::library::authorizer::Check;
use crate::library::duration;
use crate::library::named_format::NamedFormat;
use crate::library::quantity::Quantity;
use crate::library::semver::Semver;
use crate::library::url::Url;
use crate::types::Type;

#[derive(Debug, Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Value<'a>>>),
    Type(Arc<str>),
    Ip(IpAddr),
    Cidr(IpNet),
    Quantity(Quantity),
    Semver(Arc<Semver>),
    Url(Arc<Url>),
    Format(NamedFormat),
    Check(Arc<Check<'a>>),
}

/// A string, borrowed if it can be.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

#[derive(Debug, Clone)]
pub enum List<'a> {
    Json { items: &'a [Json], of: Option<&'a Declaration> },
    Made(Arc<Vec<Value<'a>>>),
}

#[derive(Debug, Clone)]
pub enum Map<'a> {
    Json { entries: &'a serde_json::Map<String, Json>, of: Option<&'a Declaration> },
    Made(Arc<MadeMap<'a>>),
}

/// A map or an object that an expression has made.
#[derive(Debug, Clone, Default)]
pub struct MadeMap<'a> {
    /// Of an object: the name of its type.
    pub name: Option<Arc<str>>,
    pub entries: IndexMap<Key, (Value<'a>, Value<'a>)>,
    /// What a key that is not there leads to; it is not `in` the map for that.
    pub otherwise: Option<Box<Value<'a>>>,
}

impl<'a> MadeMap<'a> {
    fn get(&self, key: &Key) -> Option<Value<'a>> {
        let found = self.entries.get(key).map(|(_, value)| value);
        found.or(self.otherwise.as_deref()).cloned()
    }
}

/// Keys that are equal in expressions are equal here: `1`, `1u` and `1.0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Box<str>),
}

impl Key {
    pub fn of(value: &Value) -> Option<Key> {
        Some(match value {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(number) => Key::Int(*number),
            Value::Uint(number) => i64::try_from(*number).map_or(Key::Uint(*number), Key::Int),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9.0e18 => {
                Key::Int(*number as i64)
            }
            Value::String(text) => Key::String((**text).into()),
            _ => return None,
        })
    }
}

impl<'a> Value<'a> {
    /// A value of an object, as its declaration says; without one, as JSON is.
    pub fn of_json(json: &'a Json, of: Option<&'a Declaration>) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match of.map(|of| &of.ty) {
                Some(Type::Double) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
                _ => match (number.as_i64(), number.as_f64()) {
                    (Some(whole), _) => Value::Int(whole),
                    (None, Some(fraction)) if of.is_some_and(|of| of.ty == Type::Int) => {
                        Value::Int(fraction as i64)
                    }
                    (None, fraction) => Value::Double(fraction.unwrap_or(f64::NAN)),
                },
            },
            Json::String(text) => of.and_then(|of| formatted(text, &of.ty)).unwrap_or_else(|| text.into()),
            Json::Array(items) => Value::List(List::Json { items, of }),
            Json::Object(entries) => Value::Map(Map::Json { entries, of }),
        }
    }

    pub fn list(values: Vec<Value<'a>>) -> Self {
        Value::List(List::Made(Arc::new(values)))
    }

    pub fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Arc::new(value)))
    }

    pub fn none() -> Self {
        Value::Optional(None)
    }

    /// The name that `type(x)` shows.
    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(Map::Made(made)) => made.name.as_deref().unwrap_or("map"),
            Value::Map(Map::Json { of, .. }) => match of.map(|of| &of.ty) {
                Some(Type::Object(object)) => &object.name,
                _ => "map",
            },
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Url(_) => "kubernetes.URL",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Check(check) => check.type_name(),
        }
    }

    /// As `size()` and costs count it; None for what has no size.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Ip(address) => {
                if address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Value::Cidr(network) => {
                if network.addr().is_ipv4() {
                    4
                } else {
                    16
                }
            }
            _ => return None,
        })
    }

    /// The value as JSON, for patches and audit annotations; None for what JSON cannot say.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(number) => Json::from(*number),
            Value::Uint(number) => Json::from(*number),
            Value::Double(number) => Json::from(*number),
            Value::String(text) => Json::from(&**text),
            Value::Bytes(bytes) => Json::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Value::Duration(nanoseconds) => Json::from(duration::to_text(*nanoseconds)),
            Value::Timestamp(time) => Json::from(time.to_string()),
            Value::List(list) => {
                Json::Array(list.iter().map(|value| value.to_json()).collect::<Option<_>>()?)
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| {
                    let Value::String(key) = key else { return None };
                    Some((key.to_string(), value.to_json()?))
                });
                Json::Object(entries.collect::<Option<_>>()?)
            }
            Value::Optional(Some(value)) => value.to_json()?,
            _ => return None,
        })
    }
}

/// A string whose format gives it another type; one that is not well-formed stays what it is.
fn formatted<'a>(text: &str, ty: &Type) -> Option<Value<'a>> {
    match ty {
        Type::Timestamp => timestamp(text).map(Value::Timestamp),
        Type::Duration => duration::parse(text).map(Value::Duration),
        Type::Bytes => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
            Some(Value::Bytes(bytes.into()))
        }
        _ => None,
    }
}

fn timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let date: jiff::civil::Date = text.parse().ok()?;
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            List::Json { items, .. } => items.len(),
            List::Made(values) => values.len(),
        }
    }

    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            List::Json { items, of } => {
                let of = of.and_then(|of| of.element.as_deref());
                items.get(index).map(|item| Value::of_json(item, of))
            }
            List::Made(values) => values.get(index).cloned(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub fn kind(&self) -> &ListKind {
        match self {
            List::Json { of: Some(of), .. } => &of.list,
            _ => &ListKind::Atomic,
        }
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Json { entries, .. } => entries.len(),
            Map::Made(made) => made.entries.len(),
        }
    }

    /// By the name of a field or a key that is a string.
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Map::Json { entries, of: Some(of) } => {
                let (name, of) = match &of.ty {
                    Type::Object(object) => {
                        let field = object.fields.get(name)?;
                        (field.name.as_str(), Some(&field.declaration))
                    }
                    _ => (name, of.element.as_deref()),
                };
                entries.get(name).map(|json| Value::of_json(json, of))
            }
            Map::Json { entries, of: None } => entries.get(name).map(|json| Value::of_json(json, None)),
            Map::Made(made) => made.get(&Key::String(name.into())),
        }
    }

    pub fn get(&self, key: &Value) -> Option<Value<'a>> {
        match (self, key) {
            (_, Value::String(name)) => self.field(name),
            (Map::Made(made), _) => made.get(&Key::of(key)?),
            (Map::Json { .. }, _) => None,
        }
    }

    pub fn contains(&self, key: &Value) -> bool {
        match self {
            Map::Made(made) => Key::of(key).is_some_and(|key| made.entries.contains_key(&key)),
            Map::Json { .. } => self.get(key).is_some(),
        }
    }

    pub fn keys(&self) -> Vec<Value<'a>> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// Keys and values; of an object only what is declared.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Value<'a>, Value<'a>)> + '_> {
        match self {
            Map::Json { entries, of } => {
                let entries: &'a serde_json::Map<String, Json> = entries;
                let of = *of;
                Box::new(entries.iter().filter_map(move |(name, json)| {
                    let element = match of.map(|of| (&of.ty, of)) {
                        None => None,
                        Some((Type::Object(object), _)) => {
                            let escaped = crate::escape::escape(name)?;
                            Some(&object.fields.get(&escaped)?.declaration)
                        }
                        Some((_, of)) => of.element.as_deref(),
                    };
                    Some((name.as_str().into(), Value::of_json(json, element)))
                }))
            }
            Map::Made(made) => Box::new(made.entries.values().cloned()),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(Text::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Value::String(Text::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::String(Text::Shared(text.into()))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Uint(number) => write!(f, "{number}"),
            Value::Double(number) => write!(f, "{number}"),
            Value::String(text) => f.write_str(text),
            Value::Type(name) => f.write_str(name),
            Value::Ip(address) => write!(f, "{address}"),
            Value::Cidr(network) => write!(f, "{network}"),
            other => match other.to_json() {
                Some(json) => write!(f, "{json}"),
                None => f.write_str(other.type_name()),
            },
        }
    }
}
