//! Runs workflows on the server that leads: one task of the program for each run that is not over.
//!
//! It learns of runs from their cache and keeps what happens in their journals. A server that no longer leads drops its
//! runs where they are; the next one finds them in the store.

pub mod drive;
pub mod outstanding;
mod runner;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::Client;
use minik8s_api::Records;
use minik8s_runtime::{Backoff, Cache, Caches, Key, Queue, key_of};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub use drive::{Clock, Drive, Means};
pub use runner::RUNS;

use crate::kinds::WorkflowRun;
use runner::{Ended, Runner, outlive_panic};

/// What the engine works with.
pub struct Engine {
    pub client: Client,
    pub caches: Arc<Caches>,
    pub records: Arc<dyn Records>,
    pub means: Means,
    pub leads: watch::Receiver<bool>,
    pub stop: CancellationToken,
}

/// A run that is under way here.
struct Running {
    uid: String,
    changed: Arc<Notify>,
    abort: AbortHandle,
}

impl Engine {
    /// Runs workflows until `stop`, while this server leads.
    pub async fn run(self) {
        let cache = self.caches.of::<WorkflowRun>();
        // Each key once, however often somebody writes.
        let keys = Arc::new(Queue::<Key>::new(Backoff::default()));
        let changed = keys.clone();
        cache.listen(Box::new(move |old, new| {
            if let Some(run) = new.or(old) {
                changed.add(key_of(&**run));
            }
        }));
        let mut leads = self.leads.clone();
        loop {
            // Taken and dropped while others lead, or a server that never does would keep those of all runs that ever were:
            // every run is looked at below.
            loop {
                tokio::select! {
                    () = until(&mut leads, true) => break,
                    key = keys.next() => keys.done(&key),
                    () = self.stop.cancelled() => return,
                }
            }
            tokio::select! {
                () = cache.wait_synced() => {}
                () = self.stop.cancelled() => return,
            }
            let mut term = Term::new(&self, cache.clone());
            for run in cache.list() {
                term.look(&key_of(&*run));
            }
            loop {
                tokio::select! {
                    key = keys.next() => {
                        keys.done(&key);
                        term.look(&key);
                    }
                    Some(ended) = term.tasks.join_next() => term.ended(ended),
                    () = until(&mut leads, false) => break,
                    () = self.stop.cancelled() => return,
                }
            }
        }
    }
}

/// Waits until this server leads, or leads no more. Where nobody can change that any more, for ever.
async fn until(leads: &mut watch::Receiver<bool>, wanted: bool) {
    if leads.wait_for(|leads| *leads == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The runs of one time in which this server leads. Dropping it drops them.
struct Term<'a> {
    engine: &'a Engine,
    cache: Arc<Cache<WorkflowRun>>,
    running: HashMap<Key, Running>,
    tasks: JoinSet<(Key, String, Ended)>,
    /// Ended here, though the cache may not know yet: by UID, with the number of redrives.
    settled: HashSet<(String, i64)>,
}

impl<'a> Term<'a> {
    fn new(engine: &'a Engine, cache: Arc<Cache<WorkflowRun>>) -> Self {
        Term { engine, cache, running: HashMap::new(), tasks: JoinSet::new(), settled: HashSet::new() }
    }

    /// A run has come, changed or gone.
    fn look(&mut self, key: &Key) {
        let run = self.cache.get(key);
        let uid = run.as_ref().and_then(|run| run.metadata.uid.clone()).unwrap_or_default();
        if let Some(running) = self.running.get(key) {
            if running.uid == uid {
                return running.changed.notify_one();
            }
            running.abort.abort();
            self.running.remove(key);
        }
        let Some(run) = run else { return };
        let redrives = run.spec.redrives.unwrap_or(0);
        if run.is_settled() {
            self.settled.remove(&(uid, redrives));
            return;
        }
        if run.metadata.deletion_timestamp.is_none() && !self.settled.contains(&(uid.clone(), redrives)) {
            self.start(key, uid);
        }
    }

    fn start(&mut self, key: &Key, uid: String) {
        let changed = Arc::new(Notify::new());
        let runner = Runner {
            client: self.engine.client.clone(),
            records: self.engine.records.clone(),
            means: self.engine.means.clone(),
            cache: self.cache.clone(),
            key: key.clone(),
            uid: uid.clone(),
            changed: changed.clone(),
        };
        let (own, owner) = (key.clone(), uid.clone());
        let abort = self.tasks.spawn(async move {
            let ended = outlive_panic(runner.run(), &own).await;
            (own, owner, ended)
        });
        self.running.insert(key.clone(), Running { uid, changed, abort });
    }

    fn ended(&mut self, ended: Result<(Key, String, Ended), tokio::task::JoinError>) {
        let (key, uid, ended) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_cancelled() => return,
            Err(error) => return tracing::error!(%error, "a workflow run broke off"),
        };
        if self.running.get(&key).is_some_and(|running| running.uid == uid) {
            self.running.remove(&key);
        }
        match ended {
            Ended::Settled { redrives } => {
                self.settled.insert((uid, redrives));
                // Something may have been asked for in the last moment.
                self.look(&key);
            }
            Ended::Gone => {}
            Ended::Overtaken => self.look(&key),
        }
    }
}
