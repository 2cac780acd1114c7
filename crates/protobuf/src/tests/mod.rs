//! Tests of whole bodies, with an encoder that writes what they need.

mod bodies;
mod coverage;
mod encoded;
mod golden;
mod hostile;
mod zeros;

use serde_json::Value;

use crate::{DecodeError, MAGIC, decode};

/// A field of wire type 0.
fn number(field: u32, value: i64) -> Vec<u8> {
    [varint(u64::from(field) << 3), varint(value.cast_unsigned())].concat()
}

/// A field of wire type 1.
fn double(field: u32, value: f64) -> Vec<u8> {
    [varint(u64::from(field) << 3 | 1), value.to_le_bytes().to_vec()].concat()
}

/// A field of wire type 2: text, bytes or a message.
fn bytes(field: u32, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(u64::from(field) << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A message as a field.
fn message<const N: usize>(field: u32, fields: [Vec<u8>; N]) -> Vec<u8> {
    bytes(field, fields.concat())
}

fn entry(field: u32, key: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    message(field, [bytes(1, key), bytes(2, value)])
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = message(1, [bytes(1, api_version), bytes(2, kind)]);
    [MAGIC.to_vec(), type_meta, bytes(2, object), bytes(3, ""), bytes(4, "")].concat()
}

/// The object without `apiVersion` and `kind`, which are checked here.
fn decoded<const N: usize>(
    api_version: &str,
    kind: &str,
    fields: [Vec<u8>; N],
) -> Result<Value, DecodeError> {
    let mut object = decode(&body(api_version, kind, &fields.concat()))?.object;
    let map = object.as_object_mut().unwrap();
    assert_eq!(map.shift_remove("apiVersion"), Some(api_version.into()));
    assert_eq!(map.shift_remove("kind"), Some(kind.into()));
    Ok(object)
}
