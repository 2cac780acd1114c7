//! Tasks that must live as long as their process.
//!
//! A task that is spawned and forgotten can panic or return, and all that is left of it is a line in a log while the rest
//! of the process looks healthy. Here every task has a name and one of two fates: the process cannot do without it
//! ([`Supervisor::require`]), and then its end is an error that the process ends with; or it can be started anew
//! ([`Supervisor::restart`]), and then it is, with back-off. It never swallows an end before `stop`.

use std::any::Any;
use std::collections::HashMap;
use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use minik8s_meta::error_chain;
use thiserror::Error;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Backoff;

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), most: Duration::from_secs(60) };

/// What a task can end with.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// How a task ended that should have lived.
#[derive(Debug, Error)]
pub enum Ended {
    #[error("{0} has ended")]
    Returned(String),
    #[error("{0} has failed")]
    Failed(String, #[source] TaskError),
    #[error("{0} has panicked: {1}")]
    Panicked(String, String),
}

/// Ends its tasks when dropped.
pub struct Supervisor {
    stop: CancellationToken,
    tasks: JoinSet<Result<(), TaskError>>,
    names: HashMap<Id, String>,
}

impl Supervisor {
    /// After `stop` tasks may end.
    pub fn new(stop: CancellationToken) -> Self {
        Supervisor { stop, tasks: JoinSet::new(), names: HashMap::new() }
    }

    /// The process is nothing without it: [`Supervisor::ended`] tells of its end.
    pub fn require(
        &mut self,
        name: &str,
        task: impl Future<Output = Result<(), TaskError>> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, name.to_owned());
    }

    /// Runs what `start` makes, and again, after a pause, whenever that ends; until `stop`.
    pub fn restart<F>(&mut self, name: &str, mut start: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let (stop, named) = (self.stop.clone(), name.to_owned());
        self.require(name, async move {
            let mut failures = 0;
            while !stop.is_cancelled() {
                let begun = Instant::now();
                // Making the future may panic as well as running it.
                let run = AssertUnwindSafe(async { start().await }).catch_unwind();
                let ended = tokio::select! {
                    ended = run => how(&named, ended),
                    () = stop.cancelled() => break,
                };
                // One that has lived for long has recovered from its last failure.
                failures = if begun.elapsed() > BACKOFF.most { 1 } else { failures + 1 };
                let pause = BACKOFF.after(failures);
                tracing::error!(cause = error_chain(&ended), "starting it again in {pause:?}");
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => break,
                }
            }
            Ok(())
        });
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits for the end of a task that must live; for ever if that does not happen before `stop`.
    pub async fn ended(&mut self) -> Ended {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (id, outcome) = match joined {
                Ok((id, outcome)) => (id, Ok(outcome)),
                Err(error) => (error.id(), Err(error)),
            };
            let name = self.names.remove(&id).unwrap_or_default();
            if self.stop.is_cancelled() {
                continue;
            }
            return match outcome {
                Ok(outcome) => how(&name, Ok(outcome)),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => how(&name, Err(panic)),
                    Err(error) => Ended::Failed(name, error.into()),
                },
            };
        }
    }

    /// After `stop`: until all have ended.
    pub async fn finish(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

fn how(name: &str, outcome: Result<Result<(), TaskError>, Box<dyn Any + Send>>) -> Ended {
    match outcome {
        Ok(Ok(())) => Ended::Returned(name.to_owned()),
        Ok(Err(error)) => Ended::Failed(name.to_owned(), error),
        Err(panic) => Ended::Panicked(name.to_owned(), panic_message(&*panic)),
    }
}

/// What somebody said who panicked.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn supervisor() -> (Supervisor, CancellationToken) {
        let stop = CancellationToken::new();
        (Supervisor::new(stop.clone()), stop)
    }

    async fn for_ever() -> Result<(), TaskError> {
        std::future::pending().await
    }

    #[tokio::test]
    async fn required_task_that_ends_is_told_with_name_and_cause() {
        async fn check(task: impl Future<Output = Result<(), TaskError>> + Send + 'static, want: &str) {
            let (mut supervisor, _stop) = supervisor();
            supervisor.require("another", for_ever());
            supervisor.require("the node", task);
            assert_eq!(error_chain(&supervisor.ended().await), want);
        }
        check(async { Ok(()) }, "the node has ended").await;
        check(async { Err("no containerd".into()) }, "the node has failed: no containerd").await;
        check(async { panic!("index 3") }, "the node has panicked: index 3").await;
        let four = 4;
        check(async move { panic!("index {four}") }, "the node has panicked: index 4").await;
    }

    #[tokio::test(start_paused = true)]
    async fn restarted_task_is_started_again_with_growing_pauses() {
        let (mut supervisor, stop) = supervisor();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = starts.clone();
        supervisor.restart("the router", move || {
            let start = counted.fetch_add(1, Ordering::Relaxed);
            async move { if start.is_multiple_of(2) { panic!("a bad object") } else { Err("bad luck".into()) } }
        });
        // 0, 0.5, 1.5, 3.5, 7.5 s, ... and then once a minute.
        let seen = |at| {
            let starts = starts.clone();
            async move {
                tokio::time::sleep_until(at).await;
                starts.load(Ordering::Relaxed)
            }
        };
        let begun = Instant::now();
        assert!(timeout(Duration::from_millis(100), supervisor.ended()).await.is_err(), "it is not an end");
        assert_eq!(seen(begun + Duration::from_millis(400)).await, 1);
        assert_eq!(seen(begun + Duration::from_secs(4)).await, 4);
        let before = seen(begun + LONG).await;
        assert_eq!(seen(begun + LONG + Duration::from_secs(600)).await, before + 10);
        stop.cancel();
        supervisor.finish().await;
    }

    #[tokio::test(start_paused = true)]
    async fn restarted_task_that_lived_for_long_is_back_soon() {
        let (mut supervisor, _stop) = supervisor();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = starts.clone();
        supervisor.restart("the network", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async {
                tokio::time::sleep(LONG).await;
                Ok(())
            }
        });
        let begun = Instant::now();
        for lives in 1..20 {
            tokio::time::sleep_until(begun + (LONG + Duration::from_secs(1)) * lives).await;
            assert_eq!(starts.load(Ordering::Relaxed), lives + 1);
        }
    }

    #[tokio::test]
    async fn tasks_may_end_after_stop() {
        let (mut supervisor, stop) = supervisor();
        let stopped = stop.clone();
        supervisor.require("controllers", async move {
            stopped.cancelled().await;
            Ok(())
        });
        supervisor.restart("server list", for_ever);
        stop.cancel();
        assert!(timeout(Duration::from_millis(50), supervisor.ended()).await.is_err());
        supervisor.finish().await;
    }
}
