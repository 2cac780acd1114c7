//! Runs controllers: fills their queues from the watches, and works the keys off.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Backoff, Caches, Controller, Executor, Queue, Watches};

/// What all controllers of a process share.
#[derive(Clone)]
pub struct Settings {
    /// Ends everything; work in progress is finished first.
    pub stop: CancellationToken,
    /// Work is done only while this says true. Watches run in any case, so a new leader starts warm.
    pub leads: watch::Receiver<bool>,
}

impl Default for Settings {
    /// Always leading, never stopping by itself.
    fn default() -> Self {
        // A receiver keeps its last value after the sender is gone.
        Settings { stop: CancellationToken::new(), leads: watch::channel(true).1 }
    }
}

pub struct Manager {
    caches: Arc<Caches>,
    executor: Arc<Executor>,
    settings: Settings,
    tasks: JoinSet<()>,
}

impl Manager {
    pub fn new(client: Client, caches: Arc<Caches>, settings: Settings) -> Self {
        let executor = Arc::new(Executor::new(client, caches.clone(), caches.recorder()));
        Manager { caches, executor, settings, tasks: JoinSet::new() }
    }

    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// Starts a controller.
    pub fn add<C: Controller>(&mut self, controller: C) {
        let queue = Arc::new(Queue::new(Backoff::default()));
        let sink = {
            let queue = queue.clone();
            Arc::new(move |key| queue.add(key))
        };
        let watches = Watches::new(self.caches.clone(), sink);
        controller.watch(&watches);
        let synced = watches.synced();
        let worker = Arc::new(Worker {
            controller,
            queue,
            caches: self.caches.clone(),
            executor: self.executor.clone(),
        });
        let settings = self.settings.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = synced => {}
                () = settings.stop.cancelled() => return,
            }
            work(worker, settings).await;
        });
    }

    /// Until the stop token fires and all work in progress is done. It also ends when a controller ends by itself: the
    /// others are worth little without it, and whoever runs this sees it.
    pub async fn run(mut self) {
        // Once they are told to stop they end in whatever order, and that is no news.
        let ended = tokio::select! {
            biased;
            () = self.settings.stop.cancelled() => None,
            Some(ended) = self.tasks.join_next() => Some(ended),
        };
        if let Some(ended) = ended.filter(|_| !self.settings.stop.is_cancelled()) {
            let cause = ended.err().map(|error| error.to_string()).unwrap_or_default();
            tracing::error!(cause, "a controller has ended");
            return;
        }
        while let Some(outcome) = self.tasks.join_next().await {
            if let Err(error) = outcome {
                tracing::error!(%error, "controller ended badly");
            }
        }
    }
}

struct Worker<C: Controller> {
    controller: C,
    queue: Arc<Queue<C::Key>>,
    caches: Arc<Caches>,
    executor: Arc<Executor>,
}

async fn work<C: Controller>(worker: Arc<Worker<C>>, mut settings: Settings) {
    let permits = Arc::new(Semaphore::new(worker.controller.workers()));
    let mut running = JoinSet::new();
    loop {
        let next = async {
            let permit = permits.clone().acquire_owned().await;
            // If the sender is gone, the last word stands.
            if settings.leads.wait_for(|leads| *leads).await.is_err() && !*settings.leads.borrow() {
                std::future::pending::<()>().await;
            }
            (permit, worker.queue.next().await)
        };
        let (permit, key) = tokio::select! {
            next = next => next,
            () = settings.stop.cancelled() => break,
        };
        let worker = worker.clone();
        running.spawn(async move {
            let _permit = permit;
            worker.reconcile(key).await;
        });
        while running.try_join_next().is_some() {}
    }
    while running.join_next().await.is_some() {}
}

impl<C: Controller> Worker<C> {
    async fn reconcile(&self, key: C::Key) {
        // A planner that panics must not take its key hostage.
        let mut held = Held { queue: &self.queue, key: &key, outcome: Outcome::Failure };
        let Some(seen) = self.controller.observe(&self.caches, &key) else {
            held.outcome = Outcome::Success;
            return;
        };
        let mut plan = self.controller.plan(&seen, Timestamp::now());
        let again = plan.again_after.take();
        let name = self.controller.name();
        match self.executor.run(name, plan).await {
            Ok(()) => held.outcome = Outcome::Success,
            Err(error) if error.is_expected() => {
                if error.is_conflict() {
                    held.outcome = Outcome::Conflict;
                }
                tracing::debug!(controller = name, ?key, %error, "will retry");
            }
            Err(error) => {
                let cause = error.cause();
                tracing::warn!(controller = name, ?key, %error, %cause, "will retry");
                // What we saw may be out of date by now; then the retry tells it.
                let telling = self.controller.plan_failure(&seen, &cause, Timestamp::now());
                if let Err(error) = self.executor.run(name, telling).await {
                    tracing::debug!(controller = name, ?key, %error, "failure not shown in the status");
                }
            }
        }
        if let Some(delay) = again {
            self.queue.add_after(key.clone(), delay);
        }
    }
}

enum Outcome {
    Success,
    Conflict,
    Failure,
}

struct Held<'a, K: std::hash::Hash + Eq + Clone> {
    queue: &'a Queue<K>,
    key: &'a K,
    outcome: Outcome,
}

impl<K: std::hash::Hash + Eq + Clone> Drop for Held<'_, K> {
    fn drop(&mut self) {
        match self.outcome {
            Outcome::Success => self.queue.done(self.key),
            Outcome::Conflict => self.queue.retry_after_conflict(self.key),
            Outcome::Failure => self.queue.retry(self.key),
        }
    }
}
