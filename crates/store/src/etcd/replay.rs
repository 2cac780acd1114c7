//! Brings a watch that starts far back up to the present: with an etcd watch of its own, as fast as the
//! watcher reads, until the window has the rest.
//!
//! It watches the whole store like the feed, not only the prefix, because then it surely sees the event where
//! the window begins and so knows when it has arrived.

use std::sync::Arc;

use minik8s_meta::Backoff;

use super::{Shared, feed};
use crate::watch::{Attach, Queue};
use crate::{Error, Result, Revision};

const RETRY: Backoff = Backoff::millis(50, 1_000);

pub(super) async fn run(shared: Arc<Shared>, queue: Arc<Queue>, mut reached: Revision) {
    let mut retries = RETRY.retries();
    loop {
        match catch_up(&shared, &queue, &mut reached).await {
            Ok(()) => return,
            Err(error @ Error::Compacted { .. }) => return queue.fail(error),
            Err(error) => tracing::warn!(%error, "catching up with etcd broke off; trying again"),
        }
        tokio::time::sleep(retries.failed()).await;
    }
}

async fn catch_up(shared: &Arc<Shared>, queue: &Arc<Queue>, reached: &mut Revision) -> Result<()> {
    let mut stream = None;
    while queue.wait_for_room().await {
        match shared.hub.attach(queue, *reached) {
            Attach::Live => return Ok(()),
            // The window has it, but the queue has not enough room for all.
            Attach::Behind(further) if further > *reached => {
                *reached = further;
                stream = None;
                continue;
            }
            Attach::Behind(_) => {}
        }
        let stream = match &mut stream {
            Some(stream) => stream,
            none => none.insert(feed::open(shared, *reached).await?),
        };
        let (mut events, last) = feed::next(shared, stream, *reached).await?;
        events.retain(|event| event.key.starts_with(&**queue.prefix()));
        queue.push_replayed(&events);
        *reached = last;
    }
    Ok(())
}
