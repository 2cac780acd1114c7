//! The store that the server sees: values are sealed on their way in and opened on their way out.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use minik8s_store::{
    Change, Commit, Condition, Conflict, Entry, Error, Event, Op, Opener, Outcome, Page, Range, Result,
    Revision, Store, Watch,
};
use parking_lot::RwLock;

use crate::PREFIX;
use crate::resources::IDENTITY;
use crate::rules::{Rules, writer_of};

/// There while values may lie encrypted in a store. No resource is stored below this.
const MARKER: &str = "/minik8s/encryption";
/// Keys looked at together.
const PAGE: usize = 500;

pub struct EncryptedStore {
    inner: Arc<dyn Store>,
    shared: Arc<Shared>,
}

/// What watches need too.
struct Shared(RwLock<Arc<Rules>>);

impl EncryptedStore {
    /// Notes in the store that a configuration is needed to read it.
    pub async fn open(inner: Arc<dyn Store>, rules: Rules) -> Result<Arc<EncryptedStore>> {
        if inner.get(MARKER).await?.is_none() {
            let op = Op::Put { key: MARKER.to_owned(), value: Bytes::from_static(b"{}") };
            inner.commit(Commit { conditions: Vec::new(), ops: vec![op] }).await?;
        }
        let shared = Arc::new(Shared(RwLock::new(Arc::new(rules))));
        let store = Arc::new(EncryptedStore { inner, shared });
        store.renew_identity().await?;
        Ok(store)
    }

    /// From now on these count.
    pub fn set_rules(&self, rules: Rules) {
        *self.shared.0.write() = Arc::new(rules);
    }

    /// Writes the cluster's own keys again where they lie there in an old form: no request does.
    pub async fn renew_identity(&self) -> Result<()> {
        if !self.is_stale(IDENTITY).await? {
            return Ok(());
        }
        let Some(entry) = self.get(IDENTITY).await? else { return Ok(()) };
        let conditions = vec![Condition { key: IDENTITY.to_owned(), revision: entry.revision }];
        let op = Op::Put { key: IDENTITY.to_owned(), value: entry.value };
        // Another server may have been faster, by the same rules.
        self.commit(Commit { conditions, ops: vec![op] }).await.map(drop)
    }

    fn rules(&self) -> Arc<Rules> {
        self.shared.rules()
    }
}

impl Shared {
    fn rules(&self) -> Arc<Rules> {
        self.0.read().clone()
    }
}

/// Refuses a store with encrypted values, for a server that was told of no configuration: it would serve what nobody can
/// read. One whose values were all written again in the clear is none any more.
pub async fn refuse_encrypted(store: &dyn Store) -> Result<()> {
    let Some(marker) = store.get(MARKER).await? else { return Ok(()) };
    let mut after = None;
    loop {
        let range = Range { prefix: String::new(), after, limit: PAGE, revision: None };
        let page = store.range(range).await?;
        if let Some(entry) = page.entries.iter().find(|entry| entry.value.starts_with(PREFIX)) {
            let (kind, name) = writer_of(&entry.value).unwrap_or_default();
            return Err(Error::Encryption(format!(
                "the store has encrypted values ({} by {kind} {name:?}): start the server with the \
                 --encryption-provider-config that has its key",
                entry.key
            )));
        }
        if !page.more {
            break;
        }
        after = page.entries.last().map(|entry| entry.key.to_string());
    }
    let conditions = vec![Condition { key: MARKER.to_owned(), revision: marker.revision }];
    store.commit(Commit { conditions, ops: vec![Op::Delete { key: MARKER.to_owned() }] }).await?;
    Ok(())
}

async fn opened(rules: &Rules, mut entry: Entry) -> Result<Entry> {
    entry.value = rules.open(&entry.key, &entry.value).await?;
    Ok(entry)
}

async fn opened_event(rules: Arc<Rules>, event: Arc<Event>) -> Result<Event> {
    let mut event = Event::clone(&event);
    if let Change::Put(value) = &event.change {
        event.change = Change::Put(rules.open(&event.key, value).await?);
    }
    if let Some(previous) = event.previous.take() {
        event.previous = Some(opened(&rules, previous).await?);
    }
    Ok(event)
}

impl Opener for Shared {
    fn open(&self, event: &Arc<Event>) -> Option<BoxFuture<'static, Result<Event>>> {
        let rules = self.rules();
        let needs = |value: &Bytes| rules.needs_opening(&event.key, value);
        let put = matches!(&event.change, Change::Put(value) if needs(value));
        if !put && !event.previous.as_ref().is_some_and(|previous| needs(&previous.value)) {
            return None;
        }
        Some(Box::pin(opened_event(rules, event.clone())))
    }
}

#[async_trait]
impl Store for EncryptedStore {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        match self.inner.get(key).await? {
            Some(entry) => opened(&self.rules(), entry).await.map(Some),
            None => Ok(None),
        }
    }

    async fn range(&self, range: Range) -> Result<Page> {
        let mut page = self.inner.range(range).await?;
        let rules = self.rules();
        for entry in &mut page.entries {
            if rules.needs_opening(&entry.key, &entry.value) {
                entry.value = rules.open(&entry.key, &entry.value).await?;
            }
        }
        Ok(page)
    }

    async fn commit(&self, mut commit: Commit) -> Result<Outcome> {
        let rules = self.rules();
        for op in &mut commit.ops {
            if let Op::Put { key, value } = op {
                *value = rules.seal(key, value).await?;
            }
        }
        match self.inner.commit(commit).await? {
            Outcome::Conflict(Conflict { key, found: Some(found) }) => {
                let found = Some(opened(&rules, found).await?);
                Ok(Outcome::Conflict(Conflict { key, found }))
            }
            other => Ok(other),
        }
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        Ok(self.inner.watch(prefix, after).await?.opened_by(self.shared.clone()))
    }

    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.inner.compact(revision).await
    }

    async fn ended(&self) {
        self.inner.ended().await;
    }

    fn at_rest(&self) -> Option<Arc<dyn Store>> {
        Some(self.inner.clone())
    }

    async fn is_stale(&self, key: &str) -> Result<bool> {
        let found = self.inner.get(key).await?;
        Ok(found.is_some_and(|entry| self.rules().is_stale(key, &entry.value)))
    }

    async fn request_progress(&self, watch: &Watch) -> Result<Revision> {
        self.inner.request_progress(watch).await
    }
}
