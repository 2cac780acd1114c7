//! The shared engine: an etcd cluster, for when one machine is not enough.
//!
//! Reads and commits are single requests, linearizable, so that several servers can work on one cluster.
//! All watches of this process share one etcd watch over everything (see [`feed`]), so a thousand watchers
//! cost etcd nothing; only those that start far back have one of their own until they have caught up.

mod address;
mod feed;
mod fill;
mod keys;
mod replay;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use etcd_client::{Client, Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse};
use tokio::task::AbortHandle;

pub use self::address::EtcdAddress;
use self::keys::Keys;
use self::requests::{header_revision, request};
use crate::watch::{Attach, Hub};
use crate::{
    Commit, Condition, Conflict, Entry, Error, Moment, Op, Options, Outcome, Page, Range, Result, Revision,
    Store, Watch,
};

/// etcd builds each answer in memory, so large ranges are read in parts.
const PART: usize = 1000;
/// Whatever etcd sends is taken; what it sends is bounded by [`PART`] and its own limits on requests.
const MESSAGE_BYTES: usize = usize::MAX;
/// How long a promised revision may stay out of sight before the feed is nudged.
const TIMEOUT: Duration = Duration::from_secs(1);

pub struct EtcdStore {
    shared: Arc<Shared>,
    feed: AbortHandle,
}

struct Shared {
    client: Client,
    keys: Keys,
    hub: Arc<Hub>,
    /// As far as this process knows.
    compacted: AtomicU64,
}

impl EtcdStore {
    /// Connects to a cluster. All keys of this store are under `prefix`.
    pub async fn connect(address: &EtcdAddress, prefix: &str, options: Options) -> Result<Arc<Self>> {
        let client = address.connect().await?;
        let keys = Keys::new(prefix);
        let found = fill::look(&client, &keys).await.map_err(|error| address.refused(&error))?;
        if found.filling {
            return Err(Error::Open(format!(
                "etcd at {address}: filling it with another store's contents broke off; do that again",
            )));
        }
        let keys = keys.counting_from(found.base);
        let revision = feed::mark(&client, &keys).await.map_err(|error| address.refused(&error))?;
        let hub = Hub::new(revision, &options);
        let shared = Arc::new(Shared { client, keys, hub, compacted: AtomicU64::new(0) });
        let feed = tokio::spawn(feed::run(shared.clone(), options, revision)).abort_handle();
        Ok(Arc::new(EtcdStore { shared, feed }))
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.feed.abort();
        self.shared.hub.close();
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        let mut kv = self.shared.client.kv_client().max_decoding_message_size(MESSAGE_BYTES);
        let mut response = request("get", kv.get(self.shared.keys.encode(key), None)).await?;
        response.take_kvs().pop().map(|found| self.shared.entry(&found)).transpose()
    }

    async fn range(&self, range: Range) -> Result<Page> {
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        let (mut from, end) = self.shared.keys.range(&range.prefix, range.after.as_deref());
        if from >= end {
            let revision = range.revision.map_or(self.revision().await?, |revision| revision);
            return Ok(Page { entries: Vec::new(), revision, more: false, remaining: Some(0) });
        }
        let mut kv = self.shared.client.kv_client().max_decoding_message_size(MESSAGE_BYTES);
        let mut revision = range.revision;
        let mut entries = Vec::new();
        loop {
            let part = PART.min(limit - entries.len());
            // 0 is the newest.
            let at = revision.map_or(Ok(0), |revision| self.shared.in_etcd(revision))?;
            let options = GetOptions::new().with_range(end.clone()).with_limit(part as i64).with_revision(at);
            let asked = request("range", kv.get(from.clone(), Some(options))).await;
            let explained = |error| self.shared.explain(error, revision.unwrap_or_default());
            let mut response = asked.map_err(explained)?;
            let revision = *revision.get_or_insert(header_revision(&self.shared.keys, response.header())?);
            let remaining = response.count().saturating_sub(response.kvs().len() as i64) as u64;
            for found in response.take_kvs() {
                entries.push(self.shared.entry(&found)?);
                from = found.key().to_vec();
            }
            // The key right after the last one.
            from.push(0);
            if !response.more() || entries.len() >= limit {
                let more = response.more();
                return Ok(Page { entries, revision, more, remaining: Some(remaining) });
            }
        }
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        let conditions = commit.conditions.clone();
        let transaction = self.shared.transaction(commit);
        let mut kv = self.shared.client.kv_client().max_decoding_message_size(MESSAGE_BYTES);
        let response = request("commit", kv.txn(transaction)).await?;
        if response.succeeded() {
            return Ok(Outcome::Committed(header_revision(&self.shared.keys, response.header())?));
        }
        self.shared.conflict(conditions, response.op_responses()).map(Outcome::Conflict)
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        let oldest = self.shared.compacted.load(Ordering::Relaxed).max(self.shared.keys.base());
        if after < oldest {
            return Err(Error::Compacted { requested: after, oldest });
        }
        if after > self.shared.hub.window().end() {
            let newest = self.revision().await?;
            if after > newest {
                return Err(Error::FutureRevision { requested: after, newest });
            }
        }
        let watch = self.shared.hub.subscribe(prefix);
        if let Attach::Behind(reached) = self.shared.hub.attach(watch.queue(), after) {
            self.shared.check(after).await?;
            tokio::spawn(replay::run(self.shared.clone(), watch.queue().clone(), reached));
        }
        Ok(watch)
    }

    async fn revision(&self) -> Result<Revision> {
        let mut kv = self.shared.client.kv_client();
        let options = GetOptions::new().with_count_only();
        let response = request("revision", kv.get(self.shared.keys.marker(), Some(options))).await?;
        header_revision(&self.shared.keys, response.header())
    }

    fn moments(&self) -> Vec<Moment> {
        self.shared.hub.moments(self.shared.compacted.load(Ordering::Relaxed))
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        // Not before our own feed has it: etcd would cut the feed off.
        let deadline = Instant::now() + TIMEOUT;
        while self.shared.hub.window().end() < revision && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.shared.compact(revision).await
    }

    async fn request_progress(&self, watch: &Watch) -> Result<Revision> {
        let newest = self.revision().await?;
        watch.promise_progress(newest);
        if self.shared.hub.window().end() < newest {
            tokio::spawn(feed::nudge(Arc::downgrade(&self.shared), newest));
        }
        Ok(newest)
    }
}

impl Shared {
    fn entry(&self, found: &KeyValue) -> Result<Entry> {
        self.keys
            .entry(found)
            .ok_or_else(|| Error::Engine("etcd sent a key that is not of this store".into()))
    }

    fn transaction(&self, commit: Commit) -> Txn {
        let compares = commit.conditions.iter().map(|condition| {
            let revision = match condition.revision {
                0 => 0,
                revision => self.keys.never_absent(revision),
            };
            Compare::mod_revision(self.keys.encode(&condition.key), CompareOp::Equal, revision)
        });
        let compares: Vec<Compare> = compares.collect();
        let reads =
            commit.conditions.iter().map(|condition| TxnOp::get(self.keys.encode(&condition.key), None));
        let reads: Vec<TxnOp> = reads.collect();
        let ops = commit.last_ops().into_iter().map(|op| match op {
            Op::Put { key, value } => TxnOp::put(self.keys.encode(&key), value.to_vec(), None),
            Op::Delete { key } => TxnOp::delete(self.keys.encode(&key), None),
        });
        Txn::new().when(compares).and_then(ops.collect::<Vec<_>>()).or_else(reads)
    }

    /// The first condition that what etcd found does not meet.
    fn conflict(&self, conditions: Vec<Condition>, found: Vec<TxnOpResponse>) -> Result<Conflict> {
        for (condition, found) in conditions.into_iter().zip(found) {
            let TxnOpResponse::Get(found) = found else { continue };
            let found = found.kvs().first().map(|found| self.entry(found)).transpose()?;
            if found.as_ref().map_or(0, |entry| entry.revision) != condition.revision {
                return Ok(Conflict { key: condition.key, found });
            }
        }
        Err(Error::Engine("etcd refused a transaction whose conditions hold".into()))
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let mut kv = self.client.kv_client();
        let compacted = request("compact", kv.compact(self.in_etcd(revision)?, None)).await;
        compacted.map_err(|error| self.explain(error, revision))?;
        self.compacted.fetch_max(revision, Ordering::Relaxed);
        Ok(())
    }

    /// Whether history after `revision` is there.
    async fn check(&self, revision: Revision) -> Result<()> {
        let mut kv = self.client.kv_client();
        let options = GetOptions::new().with_count_only().with_revision(self.in_etcd(revision)?);
        let asked = request("checking history", kv.get(self.keys.marker(), Some(options))).await;
        asked.map_err(|error| self.explain(error, revision)).map(drop)
    }

    /// What etcd calls that revision. Those below the base are of another time.
    fn in_etcd(&self, revision: Revision) -> Result<i64> {
        let base = self.keys.base();
        if base > 0 && revision <= base {
            return Err(Error::Compacted { requested: revision, oldest: base + 1 });
        }
        Ok(self.keys.theirs(revision).max(1))
    }

    /// etcd does not say which revision its complaint is about; those who asked know.
    fn explain(&self, error: Error, revision: Revision) -> Error {
        match error {
            Error::Compacted { .. } => {
                let known = self.compacted.load(Ordering::Relaxed);
                Error::Compacted { requested: revision, oldest: known.max(revision + 1) }
            }
            Error::FutureRevision { .. } => {
                Error::FutureRevision { requested: revision, newest: self.hub.window().end() }
            }
            other => other,
        }
    }
}
