//! Where a store's keys are in etcd: `PREFIX/keys` followed by the key, and a few keys of our own beside them.
//! And how its revisions count: etcd's own plus a base, since a store that was restored goes on above every
//! revision that it ever handed out, and etcd cannot be told to count on from there.

use std::sync::Arc;

use bytes::Bytes;
use etcd_client::KeyValue;

use crate::{Entry, Revision};

pub(super) struct Keys {
    root: String,
    data: String,
    base: Revision,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        let prefix = prefix.trim_end_matches('/');
        Keys { root: format!("{prefix}/"), data: format!("{prefix}/keys"), base: 0 }
    }

    pub(super) fn counting_from(self, base: Revision) -> Self {
        Keys { base, ..self }
    }

    /// What this store calls that revision of etcd.
    pub(super) fn ours(&self, revision: i64) -> Revision {
        (revision as Revision).saturating_add(self.base)
    }

    /// What etcd calls that revision of this store; less than 1 is older than the store is in this etcd.
    pub(super) fn theirs(&self, revision: Revision) -> i64 {
        revision as i64 - self.base as i64
    }

    /// The same for a condition: what is older than the base is no revision of any key, and not "absent".
    pub(super) fn never_absent(&self, revision: Revision) -> i64 {
        match self.theirs(revision) {
            0 => -1,
            other => other,
        }
    }

    pub(super) fn base(&self) -> Revision {
        self.base
    }

    /// Holds the base, where there is one.
    pub(super) fn base_key(&self) -> String {
        format!("{}base", self.root)
    }

    /// There while the store is being filled.
    pub(super) fn filling_key(&self) -> String {
        format!("{}filling", self.root)
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

    /// None for those of our own.
    pub(super) fn decode(&self, key: &[u8]) -> Option<Arc<str>> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(self.data.as_str()).map(Arc::from)
    }

    pub(super) fn entry(&self, found: &KeyValue) -> Option<Entry> {
        Some(Entry {
            key: self.decode(found.key())?,
            value: Bytes::copy_from_slice(found.value()),
            revision: self.ours(found.mod_revision()),
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
