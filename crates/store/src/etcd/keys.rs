//! Where a store's keys are in etcd: `PREFIX/keys` followed by the key, and one key of our own beside them.

use std::sync::Arc;

use bytes::Bytes;
use etcd_client::KeyValue;

use crate::{Entry, Revision};

pub(super) struct Keys {
    root: String,
    data: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        let prefix = prefix.trim_end_matches('/');
        Keys { root: format!("{prefix}/"), data: format!("{prefix}/keys") }
    }

    /// Everything of this store starts with this.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Written only to make a revision that the feed will see.
    pub(super) fn marker(&self) -> String {
        format!("{}marker", self.root)
    }

    pub(super) fn encode(&self, key: &str) -> String {
        format!("{}{key}", self.data)
    }

    /// None for the marker.
    pub(super) fn decode(&self, key: &[u8]) -> Option<Arc<str>> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(self.data.as_str()).map(Arc::from)
    }

    pub(super) fn entry(&self, found: &KeyValue) -> Option<Entry> {
        Some(Entry {
            key: self.decode(found.key())?,
            value: Bytes::copy_from_slice(found.value()),
            revision: found.mod_revision() as Revision,
        })
    }

    /// First key and end (exclusive) of the keys with `prefix`, behind `after`.
    pub(super) fn range(&self, prefix: &str, after: Option<&str>) -> (Vec<u8>, Vec<u8>) {
        let first = self.encode(prefix).into_bytes();
        let end = end_of_prefix(&first);
        let behind = after.map(|after| [self.encode(after).as_bytes(), &[0]].concat());
        (behind.map_or(first.clone(), |behind| behind.max(first)), end)
    }
}

/// The least byte string above all that start with `prefix`, which is text and so never ends in 0xff.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}
