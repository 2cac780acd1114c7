//! Configuration of admission, kept current by watching the store: webhooks, policies and their bindings.
//!
//! It changes seldom and is needed by every write: each change reads all of it, writes only look at memory.

use minik8s_store::{Entry, Range, Revision, Store, WatchItem};

use crate::error::Result;
use crate::following;

/// Takes all entries below a prefix, whenever they have changed.
pub type Take<'a> = dyn Fn(&[Entry]) + Send + Sync + 'a;

/// Reads them once.
pub async fn load(store: &dyn Store, prefix: &str, take: &Take<'_>) -> Result<Revision> {
    let page = store.range(Range { prefix: prefix.to_owned(), ..Range::default() }).await?;
    take(&page.entries);
    Ok(page.revision)
}

/// Follows them for ever.
pub async fn follow(store: &dyn Store, prefix: &str, take: &Take<'_>) {
    following::for_ever(&format!("following {prefix}"), || until_broken(store, prefix, take)).await
}

async fn until_broken(store: &dyn Store, prefix: &str, take: &Take<'_>) -> Result<()> {
    let revision = load(store, prefix, take).await?;
    let mut watch = store.watch(prefix, revision).await?;
    while let Some(item) = watch.next().await {
        if let WatchItem::Event(_) = item? {
            load(store, prefix, take).await?;
        }
    }
    Ok(())
}
