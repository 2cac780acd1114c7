//! The cluster's own keys, which all of its servers share, are kept in its store.
//!
//! The first server puts them there, on the condition that none are; the others take what they find into their
//! data dirs. So a backup of the store is a backup of the cluster, a copy of it the same cluster, and a
//! second server needs to be told nothing but where the store is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use minik8s_auth::pki::{Pki, ServingNames, SharedKeys};
use minik8s_auth::service_account_token::TokenIssuer;
use minik8s_informer::Backoff;
use minik8s_store::{Change, Commit, Condition, Contents, Op, Outcome, Revision, Store, WatchItem};
use tokio_util::sync::CancellationToken;

/// No resource is stored below this, so no request can read it.
const KEY: &str = "/minik8s/identity";
/// How often keys that were renewed here are looked for.
const RENEWED: Duration = Duration::from_secs(600);
const RETRY: Backoff = Backoff::millis(250, 5_000);

/// The keys of this cluster, and this server's certificates.
pub async fn settle(store: &dyn Store, directory: &Path, names: &ServingNames) -> anyhow::Result<Pki> {
    let now = Timestamp::now();
    loop {
        let Some(found) = store.get(KEY).await? else {
            let ours = match SharedKeys::read(directory)? {
                Some(ours) => ours,
                None => SharedKeys::generate(now)?,
            };
            // Whoever was first, the next look finds it.
            offer(store, &ours, 0).await?;
            continue;
        };
        let kept = SharedKeys::parse(&found.value)?;
        kept.adopt(directory)?;
        let pki = Pki::load_or_create(directory, names, now)?;
        match SharedKeys::read(directory)? {
            Some(renewed) if renewed != kept => {
                if offer(store, &renewed, found.revision).await? {
                    return Ok(pki);
                }
            }
            _ => return Ok(pki),
        }
    }
}

/// Takes over what other servers renew, and tells them what is renewed here, until `stop`.
pub async fn keep(store: Arc<dyn Store>, pki: Arc<Pki>, issuer: Arc<TokenIssuer>, stop: CancellationToken) {
    let follow = async {
        let mut retries = RETRY.retries();
        loop {
            if let Err(error) = follow(&*store, &pki, &issuer).await {
                tracing::warn!("the cluster's keys in the store: {error:#}");
            }
            tokio::time::sleep(retries.failed()).await;
        }
    };
    tokio::select! {
        () = follow => {}
        () = stop.cancelled() => {}
    }
}

async fn follow(store: &dyn Store, pki: &Pki, issuer: &TokenIssuer) -> anyhow::Result<()> {
    let since = store.revision().await?;
    let Some(found) = store.get(KEY).await? else { return Ok(()) };
    let mut known = (SharedKeys::parse(&found.value)?, found.revision);
    let mut watch = store.watch(KEY, since).await?;
    let mut looks = tokio::time::interval(RENEWED);
    loop {
        tokio::select! {
            item = watch.next() => match item.transpose()? {
                None => return Ok(()),
                Some(WatchItem::Event(event)) if &*event.key == KEY => if let Change::Put(value) = &event.change {
                    known = (SharedKeys::parse(value)?, event.revision);
                },
                Some(_) => continue,
            },
            _ = looks.tick() => {
                let here = SharedKeys::read(pki.directory())?;
                if let Some(here) = here.filter(|here| *here != known.0) {
                    offer(store, &here, known.1).await?;
                }
                continue;
            }
        }
        if SharedKeys::read(pki.directory())?.as_ref() != Some(&known.0) {
            known.0.adopt(pki.directory())?;
            pki.reload(Timestamp::now())?;
            issuer.set_keys(pki.token_keys());
            tracing::info!("took over the cluster's keys as another server renewed them");
        }
    }
}

/// The keys that such contents of a store hold.
pub fn within(contents: &Contents) -> Option<SharedKeys> {
    let (_, value) = contents.entries.iter().find(|(key, _)| key == KEY)?;
    SharedKeys::parse(value).ok()
}

/// True if the store has them now; false if others were quicker.
async fn offer(store: &dyn Store, keys: &SharedKeys, over: Revision) -> anyhow::Result<bool> {
    let commit = Commit {
        conditions: vec![Condition { key: KEY.to_owned(), revision: over }],
        ops: vec![Op::Put { key: KEY.to_owned(), value: keys.to_bytes().into() }],
    };
    Ok(matches!(store.commit(commit).await?, Outcome::Committed(_)))
}
