//! The one etcd watch that all watchers share: from etcd into the hub, reconnecting for ever.
//!
//! It sees every revision of this store, because it watches all of it, including a marker of our own. That
//! makes progress certain: whoever waits for a revision of this store will see an event at or after it. Only
//! revisions made by others in the same etcd stay unseen; for those the marker is written.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use etcd_client::{Client, EventType, WatchOptions, WatchResponse, WatchStream};
use minik8s_meta::Backoff;

use super::keys::Keys;
use super::requests::{header_revision, request};
use super::{MESSAGE_BYTES, Shared, TIMEOUT};
use crate::retention::Retention;
use crate::{Change, Error, Event, Options, Result, Revision};

/// However little history is to be kept.
const SHORTEST_TICK: Duration = Duration::from_millis(10);
const RETRY: Backoff = Backoff::millis(50, 5_000);

/// Makes a revision of this store, and returns it.
pub(super) async fn mark(client: &Client, keys: &Keys) -> Result<Revision> {
    let mut kv = client.kv_client();
    header_revision(keys, request("mark", kv.put(keys.marker(), "", None)).await?.header())
}

/// Makes sure that the feed gets to `revision`, even if that was made outside of this store. A store that is
/// gone by then is left alone.
pub(super) async fn nudge(shared: Weak<Shared>, revision: Revision) {
    tokio::time::sleep(TIMEOUT).await;
    let Some(shared) = shared.upgrade() else { return };
    if shared.hub.window().end() >= revision {
        return;
    }
    if let Err(error) = mark(&shared.client, &shared.keys).await {
        tracing::warn!(%error, "progress of watches is late");
    }
}

pub(super) async fn run(shared: Arc<Shared>, options: Options, start: Revision) {
    let retention = Retention::new(&options, Instant::now(), 0, start, 0);
    let mut feed = Feed { shared, retention, reached: start };
    let mut ticks = tokio::time::interval(options.progress.min(options.history / 4).max(SHORTEST_TICK));
    let mut retries = RETRY.retries();
    loop {
        let before = feed.reached;
        let error = match open(&feed.shared, feed.reached).await {
            Ok(mut stream) => feed.follow(&mut stream, &mut ticks).await,
            Err(error) => error,
        };
        tracing::warn!(%error, "the watch on etcd ended; connecting again");
        if let Error::Compacted { .. } = error
            && let Ok(revision) = mark(&feed.shared.client, &feed.shared.keys).await
        {
            feed.shared.hub.restart(&error, revision);
            feed.reached = revision;
        }
        if feed.reached > before {
            retries.succeeded();
        }
        tokio::time::sleep(retries.failed()).await;
    }
}

/// Watches everything of this store after `reached`. etcd checks only that the start is not compacted away,
/// so the start is one before what is wanted.
pub(super) async fn open(shared: &Shared, reached: Revision) -> Result<WatchStream> {
    let mut client = shared.client.watch_client().max_decoding_message_size(MESSAGE_BYTES);
    let options = WatchOptions::new()
        .with_prefix()
        .with_prev_key()
        .with_start_revision(shared.keys.theirs(reached).max(1));
    request("watch", client.watch(shared.keys.root(), Some(options))).await
}

/// The next events after `reached`, and the revision of the last one, also where it is only the marker's.
pub(super) async fn next(
    shared: &Shared,
    stream: &mut WatchStream,
    reached: Revision,
) -> Result<(Vec<Arc<Event>>, Revision)> {
    let ended = || Error::Engine("etcd ended the watch".into());
    let message = stream.message().await.map_err(|error| Error::Engine(format!("etcd (watch): {error}")))?;
    let response = message.ok_or_else(ended)?;
    if response.canceled() {
        return Err(match response.compact_revision() {
            0 => Error::Engine(format!("etcd cancelled the watch: {}", response.cancel_reason())),
            oldest => Error::Compacted { requested: reached, oldest: shared.keys.ours(oldest) },
        });
    }
    decode(&shared.keys, &response, reached)
}

struct Feed {
    shared: Arc<Shared>,
    retention: Retention,
    reached: Revision,
}

impl Feed {
    async fn follow(&mut self, stream: &mut WatchStream, ticks: &mut tokio::time::Interval) -> Error {
        loop {
            tokio::select! {
                next = next(&self.shared, stream, self.reached) => match next {
                    Ok((events, reached)) if reached > self.reached => self.show(&events, reached),
                    Ok(_) => {}
                    Err(error) => return error,
                },
                _ = ticks.tick() => self.look_around().await,
            }
        }
    }

    fn show(&mut self, events: &[Arc<Event>], reached: Revision) {
        self.reached = reached;
        self.shared.hub.publish(events, reached);
        self.shared.hub.dispatch(events, reached);
        let bytes = events.iter().map(|event| event.value_bytes() as u64).sum();
        self.retention.record(Instant::now(), reached, bytes);
    }

    async fn look_around(&mut self) {
        if self.shared.hub.has_news() {
            self.shared.hub.tell_quiet_watchers();
        }
        if let Some(revision) = self.retention.take_compactable(Instant::now()) {
            match self.shared.compact(revision).await {
                // Another server was quicker.
                Ok(()) | Err(Error::Compacted { .. }) => {}
                Err(error) => tracing::warn!(%error, "compacting etcd failed; it is tried again later"),
            }
        }
    }
}

fn decode(keys: &Keys, response: &WatchResponse, reached: Revision) -> Result<(Vec<Arc<Event>>, Revision)> {
    let mut events = Vec::with_capacity(response.events().len());
    let mut last = reached;
    for event in response.events() {
        let Some(written) = event.kv() else { continue };
        let revision = keys.ours(written.mod_revision());
        if revision <= reached {
            continue;
        }
        last = last.max(revision);
        let Some(key) = keys.decode(written.key()) else { continue };
        let previous = event.prev_kv().and_then(|previous| keys.entry(previous));
        let change = match event.event_type() {
            EventType::Put => Change::Put(bytes::Bytes::copy_from_slice(written.value())),
            EventType::Delete => Change::Delete,
        };
        let is_new = change != Change::Delete && written.create_revision() == written.mod_revision();
        if previous.is_none() && !is_new {
            // etcd leaves the previous value out when compaction was quicker than we.
            return Err(Error::Compacted { requested: reached, oldest: revision });
        }
        events.push(Arc::new(Event { revision, key, change, previous }));
    }
    Ok((events, last))
}
