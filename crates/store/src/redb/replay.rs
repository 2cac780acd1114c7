//! Brings a watch that starts far back up to the present: from the changes on disk, as fast as the watcher reads,
//! until the window has the rest.

use std::sync::Arc;

use super::Shared;
use crate::watch::{Attach, Queue};
use crate::{Error, Result, Revision};

pub(super) async fn run(shared: Arc<Shared>, queue: Arc<Queue>, after: Revision) {
    match catch_up(&shared, &queue, after).await {
        Ok(()) => {}
        Err(Error::Closed) => queue.close(),
        Err(error) => queue.fail(error),
    }
}

async fn catch_up(shared: &Arc<Shared>, queue: &Arc<Queue>, mut reached: Revision) -> Result<()> {
    while queue.wait_for_room().await {
        reached = match shared.hub.attach(queue, reached) {
            Attach::Live => return Ok(()),
            // The window has it, but the queue has not enough room for all.
            Attach::Behind(further) if further > reached => further,
            Attach::Behind(_) => read_some(shared, queue, reached).await?,
        };
    }
    Ok(())
}

async fn read_some(shared: &Arc<Shared>, queue: &Arc<Queue>, reached: Revision) -> Result<Revision> {
    let prefix = queue.prefix().clone();
    let read = shared.read_disk(move |shared| {
        let newest = shared.newest.read().revision();
        let snapshot = shared.disk.snapshot()?;
        shared.check(reached)?;
        snapshot.replay(&prefix, reached, newest)
    });
    let replayed = read.await?;
    queue.push_replayed(&replayed.events);
    Ok(replayed.reached)
}
