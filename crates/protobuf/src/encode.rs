//! The way back: an object's JSON text, written as Kubernetes' protobuf.
//!
//! The text is read once, and each value is written as it is read: no object is built in between. Lengths, which protobuf
//! puts before what they count, are filled in behind. A field that the tables do not know is left out, as a Go program of
//! that version would do; a value of another type than the table says is an error, and the caller answers in JSON.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::EncodeError;
use crate::table::{Field, Message, Place, Shape, Table, Type, Zero};
use crate::{MAGIC, MEDIA_TYPE};

const LIST: &str = "List";

/// Whether objects of this kind have a protobuf form.
pub fn knows(api_version: &str, kind: &str) -> bool {
    Table::get().kind(api_version, kind).is_some()
}

/// The body of an object, or of a list of objects, whose JSON text begins with `kind` and `apiVersion`.
pub fn encode(json: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(json.len());
    write_body(json, &mut out)?;
    Ok(out)
}

/// Appends one event of a watch, whose object is such a text.
pub fn encode_event(ty: &str, object: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let frame = out.len();
    out.extend_from_slice(&[0; 4]);
    put_bytes(1, ty.as_bytes(), out);
    let (extension, raw) = (open(2, out), open(1, out));
    if let Err(error) = write_body(object, out) {
        out.truncate(frame);
        return Err(error);
    }
    close(raw, out);
    close(extension, out);
    let length = u32::try_from(out.len() - frame - 4).map_err(|_| EncodeError::TooLarge)?;
    out[frame..frame + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The `Content-Type` of a watch.
pub fn stream_type() -> String {
    format!("{MEDIA_TYPE};stream=watch")
}

/// A list that is never there as one JSON text.
pub struct ListEncoder {
    item: &'static Message,
    head: Vec<u8>,
    content: Vec<u8>,
}

impl ListEncoder {
    /// Of objects of this kind, if they have a protobuf form; `metadata` is the list's own.
    pub fn new(api_version: &str, kind: &str, metadata: &[u8]) -> Result<Self, EncodeError> {
        let unknown = || EncodeError::unknown(api_version, kind);
        let item = Table::get().kind(api_version, kind).ok_or_else(unknown)?;
        let mut content = Vec::new();
        let at = open(1, &mut content);
        let list_meta = Table::get().kind("meta.k8s.io/v1", "ListMeta").ok_or_else(unknown)?;
        write_message(list_meta, metadata, &mut content)?;
        close(at, &mut content);
        Ok(ListEncoder { item, head: head(api_version, &format!("{kind}{LIST}")), content })
    }

    /// What cannot be written leaves no trace.
    pub fn item(&mut self, json: &[u8]) -> Result<(), EncodeError> {
        let start = self.content.len();
        let at = open(2, &mut self.content);
        let written = write_message(self.item, json, &mut self.content);
        match written {
            Ok(()) => close(at, &mut self.content),
            Err(_) => self.content.truncate(start),
        }
        written
    }

    /// The body, in two parts.
    pub fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        put_tag(2, BYTES, &mut self.head);
        put_varint(self.content.len() as u64, &mut self.head);
        (self.head, self.content)
    }
}

/// Everything of a body that stands before the object's own bytes.
fn head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let at = open(1, &mut out);
    put_bytes(1, api_version.as_bytes(), &mut out);
    put_bytes(2, kind.as_bytes(), &mut out);
    close(at, &mut out);
    out
}

fn write_body(json: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let unknown = reader.deserialize_map(Body { out }).map_err(EncodeError::Json)?;
    match unknown {
        Some((api_version, kind)) => Err(EncodeError::unknown(&api_version, &kind)),
        None => Ok(()),
    }
}

fn write_message(message: &'static Message, json: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Content { message, out }.deserialize(&mut reader).map_err(EncodeError::Json)
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_tag(number: u32, wire: u32, out: &mut Vec<u8>) {
    put_varint(u64::from(number << 3 | wire), out);
}

fn put_number(number: u32, value: i64, out: &mut Vec<u8>) {
    put_tag(number, VARINT, out);
    put_varint(value.cast_unsigned(), out);
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, BYTES, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Begins a message; its length gets one byte for now.
fn open(number: u32, out: &mut Vec<u8>) -> usize {
    put_tag(number, BYTES, out);
    out.push(0);
    out.len()
}

fn close(start: usize, out: &mut Vec<u8>) {
    let length = out.len() - start;
    let more = (1..10).take_while(|bytes| length >> (7 * bytes) != 0).count();
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(start..start + length, start + more);
    }
    for at in 0..=more {
        let continues = if at < more { 0x80 } else { 0 };
        out[start - 1 + at] = (length >> (7 * at)) as u8 & 0x7f | continues;
    }
}

/// A whole body. The value is the kind, if it is one that the tables do not know.
struct Body<'o> {
    out: &'o mut Vec<u8>,
}

impl<'de> Visitor<'de> for Body<'_> {
    type Value = Option<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with kind and apiVersion")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut api_version, mut kind) = (String::new(), String::new());
        let mut first = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => kind = map.next_value()?,
                "apiVersion" => api_version = map.next_value()?,
                _ => {
                    first = Some(key);
                    break;
                }
            }
        }
        let table = Table::get();
        let item = kind.strip_suffix(LIST).and_then(|item| table.kind(&api_version, item));
        let list = item.and_then(|item| Some((item, table.kind("meta.k8s.io/v1", "ListMeta")?)));
        let message = table.kind(&api_version, &kind);
        if message.is_none() && list.is_none() {
            // The rest must be read all the same.
            if first.is_some() {
                map.next_value::<IgnoredAny>()?;
            }
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Some((api_version, kind)));
        }
        self.out.extend_from_slice(&head(&api_version, &kind));
        let at = open(2, self.out);
        while let Some(key) = first.take().map_or_else(|| map.next_key::<String>(), |key| Ok(Some(key)))? {
            let number = match (key.as_str(), message, list) {
                (name, Some(message), _) => {
                    let place = message.place(name);
                    map.next_value_seed(At { place, out: &mut *self.out })?;
                    continue;
                }
                ("metadata", _, Some((_, meta))) => (1, meta, Shape::One),
                ("items", _, Some((item, _))) => (2, item, Shape::List),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let (number, message, shape) = number;
            map.next_value_seed(OfMessage { number, message, shape, out: &mut *self.out })?;
        }
        close(at, self.out);
        Ok(None)
    }
}

/// A field that is a message which no table names: those of lists.
struct OfMessage<'o> {
    number: u32,
    message: &'static Message,
    shape: Shape,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for OfMessage<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OfMessage<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata or the items of a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let at = open(self.number, self.out);
        Content { message: self.message, out: &mut *self.out }.visit_map(map)?;
        close(at, self.out);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.shape != Shape::List {
            return Err(A::Error::custom("a list where there is one"));
        }
        let (number, message) = (self.number, self.message);
        let mut next =
            || seq.next_element_seed(OfMessage { number, message, shape: Shape::One, out: &mut *self.out });
        while next()?.is_some() {}
        Ok(())
    }
}

/// The fields of a message.
struct Content<'o> {
    message: &'static Message,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Content<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Content<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.message.package, self.message.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if !self.message.either.is_empty() {
            // An object, not what else it could be. Go says so in both fields.
            if let Some(allows) = self.message.alternative(Shape::One, |ty| ty == Type::Boolean) {
                put_number(allows.number, 1, self.out);
            }
            let inner = self.message.alternative(Shape::One, |ty| matches!(ty, Type::Message(_)));
            let Some(Field { number, ty: Type::Message(index), .. }) = inner else {
                return Err(A::Error::custom("an object where there is none"));
            };
            let at = open(*number, self.out);
            Content { message: Table::get().message(*index), out: &mut *self.out }.visit_map(map)?;
            close(at, self.out);
            return Ok(());
        }
        while let Some(place) = map.next_key_seed(Name(self.message))? {
            map.next_value_seed(At { place, out: &mut *self.out })?;
        }
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        match self.message.alternative(Shape::One, |ty| ty == Type::Boolean) {
            Some(field) => put_number(field.number, value.into(), self.out),
            None => return Err(E::invalid_type(serde::de::Unexpected::Bool(value), &self)),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        match self.message.alternative(Shape::List, |_| true) {
            Some(field) => Value { field, out: self.out }.visit_seq(seq),
            None => Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self)),
        }
    }
}

/// Finds the field of a key.
struct Name(&'static Message);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static Place>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static Place>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.place(name))
    }
}

/// A field where the tables have it, inside of embedded structs.
struct At<'o> {
    place: Option<&'static Place>,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Some(place) = self.place else {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(drop);
        };
        let (start, out) = (self.out.len(), self.out);
        let opened: Vec<usize> = place.inside.iter().map(|number| open(*number, out)).collect();
        let before = out.len();
        deserializer.deserialize_option(Value { field: &place.field, out: &mut *out })?;
        if out.len() == before {
            out.truncate(start);
            return Ok(());
        }
        opened.into_iter().rev().for_each(|at| close(at, out));
        Ok(())
    }
}

/// The value of a field. Nulls are as good as not there.
struct Value<'o> {
    field: &'static Field,
    out: &'o mut Vec<u8>,
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of a field", if self.field.shape == Shape::List { "list" } else { "value" })
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.field.shape {
            Shape::List => deserializer.deserialize_seq(self),
            Shape::Map => deserializer.deserialize_map(self),
            Shape::One | Shape::Inline => {
                let drops_zero = self.field.zero != Zero::Kept;
                One { number: self.field.number, ty: self.field.ty, drops_zero, out: self.out }
                    .deserialize(deserializer)
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Field { number, ty, .. } = *self.field;
        let mut next = || seq.next_element_seed(One { number, ty, drops_zero: false, out: &mut *self.out });
        while next()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Field { number, ty, .. } = *self.field;
        while let Some(at) = map.next_key_seed(Entry { number, out: &mut *self.out })? {
            map.next_value_seed(One { number: 2, ty, drops_zero: false, out: &mut *self.out })?;
            close(at, self.out);
        }
        Ok(())
    }
}

/// Begins an entry of a map with its key.
struct Entry<'o> {
    number: u32,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Entry<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<usize, E> {
        let at = open(self.number, self.out);
        put_bytes(1, key.as_bytes(), self.out);
        Ok(at)
    }
}

/// One value with its number.
struct One<'o> {
    number: u32,
    ty: Type,
    drops_zero: bool,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.ty {
            Type::Message(index) => {
                let at = open(self.number, self.out);
                Content { message: Table::get().message(index), out: &mut *self.out }
                    .deserialize(deserializer)?;
                close(at, self.out);
                Ok(())
            }
            Type::Json => {
                let raw = <&RawValue as serde::Deserialize>::deserialize(deserializer)?;
                self.inside(|out| put_bytes(1, raw.get().as_bytes(), out));
                Ok(())
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl One<'_> {
    /// A message around it.
    fn inside(self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = open(self.number, self.out);
        write(self.out);
        close(at, self.out);
    }

    fn wrong<E: serde::de::Error>(&self, got: &str) -> E {
        E::custom(format!("{got} where the table has {:?}", self.ty))
    }

    fn number<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        match self.ty {
            Type::Integer if self.drops_zero && value == 0 => {}
            Type::Integer => put_number(self.number, value, self.out),
            Type::Float => return self.visit_f64(value as f64),
            Type::Quantity => self.inside(|out| put_bytes(1, value.to_string().as_bytes(), out)),
            Type::IntOrString => self.inside(|out| {
                put_number(1, 0, out);
                put_number(2, value, out);
            }),
            _ => return Err(self.wrong("a number")),
        }
        Ok(())
    }

    fn time<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let time: Timestamp = text.parse().map_err(|_| self.wrong(text))?;
        let nanos = i64::from(time.subsec_nanosecond());
        self.inside(|out| {
            put_number(1, time.as_second(), out);
            put_number(2, nanos, out);
        });
        Ok(())
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.ty)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        match self.ty {
            Type::Text | Type::Bytes if self.drops_zero && text.is_empty() => {}
            Type::Text => put_bytes(self.number, text.as_bytes(), self.out),
            Type::Bytes => {
                let bytes = STANDARD.decode(text).map_err(|_| self.wrong("a text that is not base64"))?;
                put_bytes(self.number, &bytes, self.out);
            }
            Type::Time | Type::MicroTime => return self.time(text),
            Type::Quantity => self.inside(|out| put_bytes(1, text.as_bytes(), out)),
            Type::IntOrString => self.inside(|out| {
                put_number(1, 1, out);
                put_bytes(3, text.as_bytes(), out);
            }),
            _ => return Err(self.wrong("a text")),
        }
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        match self.ty {
            Type::Boolean if self.drops_zero && !value => {}
            Type::Boolean => put_number(self.number, value.into(), self.out),
            _ => return Err(self.wrong("a boolean")),
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.number(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.number(value),
            Err(_) => Err(self.wrong("a number of more than 63 bits")),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        match self.ty {
            Type::Float if self.drops_zero && value == 0.0 => {}
            Type::Float => {
                put_tag(self.number, FIXED64, self.out);
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            Type::Quantity => self.inside(|out| put_bytes(1, value.to_string().as_bytes(), out)),
            _ => return Err(self.wrong("a fraction")),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.ty != Type::Strings {
            return Err(self.wrong("a list"));
        }
        let at = open(self.number, self.out);
        let out = self.out;
        let mut next =
            || seq.next_element_seed(One { number: 1, ty: Type::Text, drops_zero: false, out: &mut *out });
        while next()?.is_some() {}
        close(at, out);
        Ok(())
    }
}
