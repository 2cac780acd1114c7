//! Writes acknowledgements beside the agent's loop, which starts pods and never waits for one of them. Which are written,
//! and when, is in [`super::ack_queue`].

use std::time::{Duration, Instant};

use kube::Client;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use super::ack_queue::AckQueue;
use super::acks::{AckedObject, Applied};
use super::tell::{ack_of, tell};

/// One that is not answered keeps its place from others for so long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// What has come of one.
pub type Written = (AckedObject, Result<(), String>);

pub struct AckWriter {
    client: Client,
    /// Whose acknowledgements they are.
    node: String,
    queue: AckQueue,
    writes: JoinSet<Written>,
}

impl AckWriter {
    pub fn new(client: Client, node: String) -> Self {
        AckWriter { client, node, queue: AckQueue::default(), writes: JoinSet::new() }
    }

    /// What the control plane waits for, each with its uid and its revision, by this version of the configuration.
    pub fn want(
        &mut self,
        objects: impl Iterator<Item = (AckedObject, String, String)>,
        version: u64,
        now: Instant,
    ) {
        self.queue.want(objects, version, now);
    }

    /// Begins to write what there is to say; how long until there may be more although nothing happens.
    pub fn report(&mut self, applied: &Applied) -> Option<Duration> {
        let again = self.queue.fill(applied, Instant::now());
        self.begin();
        again
    }

    /// The next that has come to an end; `None` while none is being written. Nothing is lost if it is not waited for to the
    /// end.
    pub async fn written(&mut self) -> Option<Written> {
        self.writes.join_next().await?.ok()
    }

    /// Whether others are being written.
    pub fn take(&mut self, (object, result): Written) -> bool {
        if let Err(error) = &result {
            debug!(%error, ?object, "cannot acknowledge");
        }
        self.queue.end(object, result.is_ok(), Instant::now());
        self.begin();
        self.queue.is_writing()
    }

    fn begin(&mut self) {
        while let Some((object, ack)) = self.queue.begin() {
            let client = self.client.clone();
            let request = ack_of(&self.node, &object, ack.uid, &ack.spec);
            self.writes.spawn(async move {
                let result = match timeout(WRITE_TIMEOUT, tell(&client, request)).await {
                    Ok(told) => told.map_err(|error| error.to_string()),
                    Err(_) => Err("no answer in time".to_owned()),
                };
                (object, result)
            });
        }
    }
}
