//! Kubernetes' protobuf bodies, from and to the JSON form of the same object.
//!
//! Go clients from 1.32 on send built-in kinds as `application/vnd.kubernetes.protobuf` and do not fall
//! back when they are refused; many ask for answers in it too. So bodies are turned into JSON where they arrive, and
//! answers into protobuf where they leave: everything behind knows JSON only.
//!
//! A body is four magic bytes and a `runtime.Unknown`: apiVersion, kind, and the object's own bytes. What the
//! bytes mean stands in the tables below `fields/`, see [`table`]. The result is what Go would write as
//! JSON for the same object: Go's encoder sends every field that is no pointer, also when it is empty, and
//! its JSON leaves those out. No kind is known by name except DeleteOptions, which every group has, Status, and
//! lists, which are all alike.

mod encode;
mod error;
mod message;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::{Map, Value};

pub use encode::{ListEncoder, encode, encode_event, knows, stream_type};
pub use error::{DecodeError, EncodeError, Fault};
use message::Decoder;
use table::Table;
use wire::{Reader, Wire};

/// The `Content-Type` of such bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Every body starts with these bytes.
const MAGIC: &[u8] = b"k8s\0";

/// What a body holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object with `apiVersion` and `kind`.
    pub object: Value,
    /// Fields with a content that the tables do not know, as `field 99 of core.v1.PodSpec`: a newer client
    /// has sent them, and they are lost. A hostile body has them listed only so far.
    pub unknown: Vec<String>,
}

/// Decodes a body. The time it takes and the memory it needs grow with the size of the body only.
pub fn decode(body: &[u8]) -> Result<Decoded, DecodeError> {
    let envelope = Envelope::of(body)?;
    let (api_version, kind) = (envelope.api_version, envelope.kind);
    let message = Table::get().kind(api_version, kind).ok_or_else(|| DecodeError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })?;
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), kind.into());
    fields.insert("apiVersion".to_owned(), api_version.into());
    let mut decoder = Decoder::new(Table::get());
    decoder.message(message, envelope.raw, &mut fields)?;
    Ok(Decoded { object: Value::Object(fields), unknown: decoder.unknown })
}

/// As [`decode`], also of a list of objects: requests never are one, answers often.
pub fn decode_answer(body: &[u8]) -> Result<Value, DecodeError> {
    let (envelope, table) = (Envelope::of(body)?, Table::get());
    let item = envelope.kind.strip_suffix("List").and_then(|kind| table.kind(envelope.api_version, kind));
    let (Some(item), Some(list_meta)) = (item, table.kind("meta.k8s.io/v1", "ListMeta")) else {
        return decode(body).map(|decoded| decoded.object);
    };
    let at = |fault| DecodeError::at(envelope.kind, fault);
    let (mut metadata, mut items) = (Map::new(), Vec::new());
    let (mut decoder, mut reader) = (Decoder::new(table), Reader::new(envelope.raw));
    while let Some((number, wire)) = reader.next().map_err(at)? {
        match number {
            1 => decoder.message(list_meta, wire.bytes().map_err(at)?, &mut metadata)?,
            2 => {
                let mut fields = Map::new();
                decoder.message(item, wire.bytes().map_err(at)?, &mut fields)?;
                items.push(Value::Object(fields));
            }
            _ => {}
        }
    }
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), envelope.kind.into());
    fields.insert("apiVersion".to_owned(), envelope.api_version.into());
    fields.insert("metadata".to_owned(), Value::Object(metadata));
    fields.insert("items".to_owned(), Value::Array(items));
    Ok(Value::Object(fields))
}

/// `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    encoding: &'a str,
}

impl<'a> Envelope<'a> {
    fn of(body: &'a [u8]) -> Result<Self, DecodeError> {
        let bytes = body.strip_prefix(MAGIC).ok_or(DecodeError::NoMagic)?;
        let envelope = Envelope::read(bytes).map_err(|fault| DecodeError::at("runtime.Unknown", fault))?;
        match envelope.encoding {
            "" => Ok(envelope),
            encoding => Err(DecodeError::Encoding(encoding.to_owned())),
        }
    }

    fn read(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut envelope = Envelope::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            match number {
                1 => envelope.type_meta(wire)?,
                2 => envelope.raw = wire.bytes()?,
                3 => envelope.encoding = wire.text()?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn type_meta(&mut self, wire: Wire<'a>) -> Result<(), Fault> {
        let mut reader = Reader::new(wire.bytes()?);
        while let Some((number, wire)) = reader.next()? {
            match number {
                1 => self.api_version = wire.text()?,
                2 => self.kind = wire.text()?,
                _ => {}
            }
        }
        Ok(())
    }
}
