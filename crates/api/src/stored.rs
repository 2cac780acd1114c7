//! The objects of a kind as the store holds them, for whoever asks again and again and parses only what has changed.
//!
//! Nothing is copied: bytes are shared with the store. Whoever keeps one of these keeps its bytes.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::ReadError;

/// How stored bytes become an object.
pub type Parse = dyn Fn(&StoredObject) -> Result<Value, ReadError> + Send + Sync;

/// All objects of a kind, in the order of their paths, on one snapshot of the store.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    pub revision: u64,
    pub objects: Vec<StoredObject>,
}

/// One object, not yet parsed.
#[derive(Clone)]
pub struct StoredObject {
    key: Arc<str>,
    /// Where the path begins in the key.
    path: usize,
    /// Its `resourceVersion`.
    pub version: u64,
    pub bytes: Bytes,
    parse: Arc<Parse>,
}

impl StoredObject {
    /// `path` is where the part of the key begins that is the object's own.
    pub fn new(key: Arc<str>, path: usize, version: u64, bytes: Bytes, parse: Arc<Parse>) -> Self {
        StoredObject { key, path, version, bytes, parse }
    }

    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// `NAMESPACE/NAME`, or `NAME` where the kind has no namespaces: neither can hold a slash.
    pub fn path(&self) -> &str {
        self.key.get(self.path..).unwrap_or_default()
    }

    /// Empty where the kind has none.
    pub fn namespace(&self) -> &str {
        self.path().split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The object, without `managedFields`.
    pub fn parse(&self) -> Result<Value, ReadError> {
        (self.parse)(self)
    }
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.version)
    }
}
