//! Kubernetes objects in protobuf, as clients written in Go send them: kubectl from 1.32 on for objects it
//! makes itself, and everything built on controller-runtime.
//!
//! A body becomes the JSON that the same client would have sent, so nothing after this module knows the
//! difference. Field numbers stand in `messages.txt`. This module never writes protobuf: every client that
//! sends it also takes JSON.

mod decode;
mod table;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::Value;

use decode::Decoder;
use table::MESSAGES;
use wire::Malformed;

/// The media type of such bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Every body starts with this.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("it does not start with the mark of Kubernetes objects")]
    NoMark,
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("the numbers of {kind:?} in {api_version:?} are not known here; send it as JSON")]
    UnknownKind { api_version: String, kind: String },
}

/// An object, and what could not be understood in it.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub object: Value,
    /// Fields of a newer version, for people to read.
    pub unknown: Vec<String>,
}

/// The object in a body.
pub fn decode(body: &[u8]) -> Result<Decoded, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMark)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in wire::fields(envelope) {
        match field? {
            (1, token) => {
                for field in wire::fields(token.bytes()?) {
                    match field? {
                        (1, token) => api_version = token.text()?.to_owned(),
                        (2, token) => kind = token.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, token) => raw = token.bytes()?,
            _ => {}
        }
    }
    let Some(message) = MESSAGES.get(&(package_of(&api_version, &kind), kind.as_str())) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut decoder = Decoder::default();
    let mut object = serde_json::Map::new();
    object.insert("kind".to_owned(), kind.as_str().into());
    object.insert("apiVersion".to_owned(), api_version.as_str().into());
    decoder.fill(message, raw, &mut object)?;
    Ok(Decoded { object: Value::Object(object), unknown: decoder.unknown })
}

/// `rbac.authorization.k8s.io/v1` is `rbac.v1` in the table.
fn package_of(api_version: &str, kind: &str) -> &'static str {
    // Every group has its own name for the options of a delete.
    if kind == "DeleteOptions" {
        return "meta.v1";
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let group = group.split('.').next().unwrap_or_default();
    let is_it = |package: &&str| package.split_once('.') == Some((group, version));
    MESSAGES.keys().map(|(package, _)| *package).find(is_it).unwrap_or_default()
}
