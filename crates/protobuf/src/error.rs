//! Why a body cannot be decoded, or an object not encoded.

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("it does not start with the bytes \"k8s\\0\"")]
    NoMagic,
    #[error("{kind:?} of apiVersion {api_version:?} has no known protobuf form; send it as JSON")]
    UnknownKind { api_version: String, kind: String },
    #[error("its content is encoded as {0:?}; only plain protobuf can be read")]
    Encoding(String),
    /// The message or field where the bytes make no sense: `core.v1.Container.ports`.
    #[error("{place}: {fault}")]
    Field { place: String, fault: Fault },
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("the bytes end too early")]
    Truncated,
    #[error("a number has more than 64 bits")]
    LongNumber,
    #[error("{0} is no field number")]
    FieldNumber(u64),
    #[error("wire type {0} is not in use")]
    WireType(u8),
    #[error("the wire type does not fit the field")]
    Mismatch,
    #[error("the text is not UTF-8")]
    NotUtf8,
    #[error("the embedded JSON is not valid: {0}")]
    Json(String),
    #[error("{0} is outside the years 0 to 9999")]
    Time(i64),
    #[error("the number has no JSON form")]
    NotFinite,
    #[error("it nests deeper than {0} levels")]
    TooDeep(usize),
    #[error("the object has more than {0} values")]
    TooMany(usize),
}

impl DecodeError {
    pub(crate) fn at(place: impl Into<String>, fault: Fault) -> Self {
        DecodeError::Field { place: place.into(), fault }
    }
}

#[derive(Debug, Error)]
pub enum EncodeError {
    #[error("{kind:?} of apiVersion {api_version:?} has no known protobuf form")]
    UnknownKind { api_version: String, kind: String },
    #[error("the object does not fit the tables")]
    Json(#[source] serde_json::Error),
    #[error("an event has more than 4 GiB")]
    TooLarge,
}

impl EncodeError {
    pub(crate) fn unknown(api_version: &str, kind: &str) -> Self {
        EncodeError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
    }
}
