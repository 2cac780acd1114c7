//! A store that remembers when it last failed to take a write.
//!
//! Nodes tell that they live by writes. While the disk is full or etcd has no leader none of them is heard, and that
//! is not their fault: their silence counts from when the store was last in trouble. It passes everything on as it is.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use minik8s_store::{Commit, Entry, Moment, Outcome, Page, Range, Result, Revision, Store, Watch};
use parking_lot::Mutex;

/// When a write was last refused for no fault of its own.
#[derive(Clone, Default)]
pub struct StoreTrouble(Arc<Mutex<Option<Timestamp>>>);

impl StoreTrouble {
    pub fn last(&self) -> Option<Timestamp> {
        *self.0.lock()
    }

    /// The same store, which tells us.
    pub fn watch(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Noting { store, trouble: self.clone() })
    }
}

struct Noting {
    store: Arc<dyn Store>,
    trouble: StoreTrouble,
}

#[async_trait]
impl Store for Noting {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        self.store.get(key).await
    }

    async fn range(&self, range: Range) -> Result<Page> {
        self.store.range(range).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        let outcome = self.store.commit(commit).await;
        if outcome.is_err() {
            *self.trouble.0.lock() = Some(Timestamp::now());
        }
        outcome
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        self.store.watch(prefix, after).await
    }

    async fn revision(&self) -> Result<Revision> {
        self.store.revision().await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.store.compact(revision).await
    }

    fn moments(&self) -> Vec<Moment> {
        self.store.moments()
    }

    async fn ended(&self) {
        self.store.ended().await;
    }

    async fn request_progress(&self, watch: &Watch) -> Result<Revision> {
        self.store.request_progress(watch).await
    }
}

#[cfg(test)]
mod tests {
    use minik8s_store::{Op, Options, RedbStore};

    use super::*;

    #[tokio::test]
    async fn failures_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let redb = RedbStore::open(scratch.path().join("store"), Options::default()).unwrap();
        let trouble = StoreTrouble::default();
        let store = trouble.watch(redb.clone());
        let put = || Commit {
            conditions: Vec::new(),
            ops: vec![Op::Put { key: "/a".to_owned(), value: "1".into() }],
        };
        store.commit(put()).await.unwrap();
        assert_eq!(store.get("/a").await.unwrap().unwrap().value, "1");
        assert_eq!(trouble.last(), None);
        redb.close().await;
        let before = Timestamp::now();
        store.commit(put()).await.unwrap_err();
        assert!(trouble.last().unwrap() >= before);
    }
}
