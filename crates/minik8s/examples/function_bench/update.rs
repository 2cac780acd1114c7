//! New revisions of a function while it is called a thousand times a second: every call is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::http::Connection;
use crate::{Bench, PAUSE, until};

const NAME: &str = "updated";
const CLIENTS: u32 = 32;
/// All of them together call a thousand times a second.
const BETWEEN: Duration = Duration::from_millis(CLIENTS as u64);
const UPDATES: i64 = 5;

#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    answered: AtomicUsize,
    failed: AtomicUsize,
}

impl Bench<'_> {
    pub async fn updates(&self) -> Result<String> {
        self.create(NAME, &[]).await?;
        let counts = Arc::new(Counts::default());
        let (begun, port) = (Instant::now(), self.cluster.http_port());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let counts = counts.clone();
                std::thread::spawn(move || call(&counts, port, begun + BETWEEN * n / CLIENTS))
            })
            .collect();
        for revision in 2..2 + UPDATES {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let env = json!([{"name": "VERSION", "value": revision.to_string()}]);
            let patch = Patch::Merge(json!({"spec": {"env": env}}));
            self.functions().patch(NAME, &PatchParams::default(), &patch).await?;
            let serves = async || {
                let status = self.functions().get_status(NAME).await?.status.unwrap_or_default();
                Ok(status.serving_revision == revision)
            };
            until("the new revision serves", serves, PAUSE).await?;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let took = begun.elapsed();
        counts.stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        }
        let (answered, failed) =
            (counts.answered.load(Ordering::Relaxed), counts.failed.load(Ordering::Relaxed));
        Ok(format!(
            "{UPDATES} updates under {:.0} calls a second (asked for 1000): {failed} of {} failed; target 0\n",
            answered as f64 / took.as_secs_f64(),
            answered + failed,
        ))
    }
}

/// Calls at its times, also when an answer was late, until it is told to stop.
fn call(counts: &Counts, port: u16, first: Instant) {
    let mut next = first;
    let mut connection = None;
    while !counts.stop.load(Ordering::Relaxed) {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next += BETWEEN;
        let mut open = || -> Result<u16> {
            let mut used = match connection.take() {
                Some(open) => open,
                None => Connection::open("127.0.0.1", port)?,
            };
            let status = used.call("/fn/default/updated", "{}")?;
            connection = Some(used);
            Ok(status)
        };
        let is_good = open().is_ok_and(|status| status == 200);
        (if is_good { &counts.answered } else { &counts.failed }).fetch_add(1, Ordering::Relaxed);
    }
}
