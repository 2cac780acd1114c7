//! Stand-ins for tests and benchmarks: records in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use minik8s_api::{Owner, Record, RecordChange, RecordOutcome, Records, RecordsError};
use parking_lot::Mutex;

/// Records as the store keeps them, without a store.
#[derive(Default)]
pub struct MemoryRecords(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    revision: u64,
    records: BTreeMap<(String, String), (Bytes, u64)>,
    commits: u64,
}

impl MemoryRecords {
    /// How many changes there were.
    pub fn commits(&self) -> u64 {
        self.0.lock().commits
    }

    /// As if the object had been deleted.
    pub fn clear(&self) {
        self.0.lock().records.clear();
    }
}

#[async_trait]
impl Records for MemoryRecords {
    async fn read(&self, uid: &str) -> Result<Vec<Record>, RecordsError> {
        let inner = self.0.lock();
        let own = inner.records.iter().filter(|((owner, _), _)| owner == uid);
        Ok(own
            .map(|((_, name), (value, revision))| Record {
                name: name.clone(),
                value: value.clone(),
                revision: *revision,
            })
            .collect())
    }

    async fn write(&self, uid: &str, change: RecordChange<'_>) -> Result<RecordOutcome, RecordsError> {
        let mut inner = self.0.lock();
        let key = |name: &str| (uid.to_owned(), name.to_owned());
        let revision_of = |inner: &Inner, name: &str| inner.records.get(&key(name)).map(|found| found.1);
        let unchanged =
            change.unchanged.is_none_or(|(name, revision)| revision_of(&inner, name) == Some(revision));
        let absent = change.create.iter().all(|(name, _)| revision_of(&inner, name).is_none());
        if !unchanged || !absent {
            return Ok(RecordOutcome::Conflict);
        }
        inner.revision += 1;
        inner.commits += 1;
        let revision = inner.revision;
        for (name, value) in change.create {
            inner.records.insert(key(&name), (value, revision));
        }
        for name in change.remove {
            inner.records.remove(&key(&name));
        }
        Ok(RecordOutcome::Written(revision))
    }

    async fn touch(&self, _owner: Owner<'_>, _annotation: &str) -> Result<(), RecordsError> {
        Ok(())
    }
}
