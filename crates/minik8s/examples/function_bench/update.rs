//! A function that is called a thousand times a second while it gets new revisions, and then while its instances are killed:
//! every call is answered, and a ledger says that none is executed twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::http::Connection;
use crate::ledger::{HANDLER, Ledger};
use crate::{Bench, PAUSE, until};

const NAME: &str = "updated";
const CLIENTS: u32 = 32;
/// All of them together call a thousand times a second.
const BETWEEN: Duration = Duration::from_millis(CLIENTS as u64);
const UPDATES: i64 = 5;
const KILLS: usize = 5;
const EACH: Duration = Duration::from_secs(2);
/// Who worked on the call was killed.
const LOST: u16 = 502;

impl Bench<'_> {
    pub async fn updates(&self) -> Result<String> {
        let ledger = Ledger::listen()?;
        self.post_code(NAME, HANDLER, &[ledger.variable()]).await?;
        self.until_served(NAME).await?;
        let load = Load::start(self.cluster.http_port());
        for revision in 2..2 + UPDATES {
            tokio::time::sleep(EACH).await;
            let env = json!([ledger.variable(), {"name": "VERSION", "value": revision.to_string()}]);
            let patch = Patch::Merge(json!({"spec": {"env": env}}));
            self.functions().patch(NAME, &PatchParams::default(), &patch).await?;
            let serves = async || {
                let status = self.functions().get_status(NAME).await?.status.unwrap_or_default();
                Ok(status.serving_revision == revision)
            };
            until("the new revision serves", serves, PAUSE).await?;
        }
        tokio::time::sleep(EACH).await;
        let updated = load.stop()?;
        let executed = ledger.counts()?;
        let told = format!(
            "{UPDATES} updates under {:.0} calls a second (asked for 1000): {} of {} failed, {}; target 0, 0\n",
            updated.rate(),
            updated.answers.len() - updated.with(200),
            updated.answers.len(),
            updated.against(&executed),
        );
        Ok(told + &self.kills().await?)
    }

    /// As the kernel does it where memory is out. What an instance worked on then is answered so, and is not repeated.
    async fn kills(&self) -> Result<String> {
        let ledger = Ledger::listen()?;
        let patch = Patch::Merge(json!({"spec": {"env": [ledger.variable()]}}));
        let before = self.functions().patch(NAME, &PatchParams::default(), &patch).await?;
        let revision = before.status.map_or(0, |status| status.revision) + 1;
        let serves = async || {
            let status = self.functions().get_status(NAME).await?.status.unwrap_or_default();
            Ok(status.serving_revision == revision)
        };
        until("it tells the new ledger", serves, PAUSE).await?;
        let load = Load::start(self.cluster.http_port());
        for _ in 0..KILLS {
            tokio::time::sleep(EACH).await;
            let found = async || Ok(self.first_process().await?.is_some());
            until("there is an instance", found, PAUSE).await?;
            if let Some(process) = self.first_process().await? {
                kill(process, Signal::SIGKILL).context("an instance cannot be killed")?;
            }
        }
        tokio::time::sleep(EACH).await;
        let killed = load.stop()?;
        let executed = ledger.counts()?;
        let (good, lost) = (killed.with(200), killed.with(LOST));
        Ok(format!(
            "{KILLS} instances killed under {:.0} calls a second: of {} calls {lost} answered {LOST}, {} failed otherwise, {}; \
             target 0, 0\n",
            killed.rate(),
            killed.answers.len(),
            killed.answers.len() - good - lost,
            killed.against(&executed),
        ))
    }

    /// Of some instance that runs.
    async fn first_process(&self) -> Result<Option<Pid>> {
        let pods = self.instances(NAME).await?;
        let live = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let names: Vec<String> = live.filter_map(|pod| pod.metadata.name).collect();
        let entries = std::fs::read_dir("/proc").context("/proc")?.flatten();
        Ok(entries.map(|entry| entry.path()).find_map(|path| {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            (is_first(&path) && names.contains(&host_name(&path)?)).then_some(Pid::from_raw(number))
        }))
    }
}

/// Of its container.
fn is_first(process: &Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    let numbers: Vec<&str> = numbers.split_whitespace().collect();
    numbers.len() > 1 && numbers.last() == Some(&"1")
}

/// As its pod is called, also where it began in a slot.
fn host_name(process: &Path) -> Option<String> {
    let text = std::fs::read_to_string(process.join("root/etc/hostname")).ok()?;
    Some(text.trim().to_owned())
}

/// Clients that call at their times.
struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
    begun: Instant,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    next: AtomicUsize,
    /// By the number of the call; 0 where none came.
    answers: Mutex<BTreeMap<usize, u16>>,
}

/// What became of all calls.
struct Outcome {
    answers: BTreeMap<usize, u16>,
    took: Duration,
}

impl Load {
    fn start(port: u16) -> Load {
        let (shared, begun) = (Arc::<Shared>::default(), Instant::now());
        let clients = (0..CLIENTS).map(|n| {
            let shared = shared.clone();
            std::thread::spawn(move || call(&shared, port, begun + BETWEEN * n / CLIENTS))
        });
        Load { clients: clients.collect(), shared, begun }
    }

    fn stop(self) -> Result<Outcome> {
        let took = self.begun.elapsed();
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        }
        let mut answers = self.shared.answers.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
        Ok(Outcome { answers: std::mem::take(&mut *answers), took })
    }
}

impl Outcome {
    fn with(&self, status: u16) -> usize {
        self.answers.values().filter(|one| **one == status).count()
    }

    fn rate(&self) -> f64 {
        self.with(200) as f64 / self.took.as_secs_f64()
    }

    /// What the ledger says of them.
    fn against(&self, executed: &BTreeMap<usize, usize>) -> String {
        let twice = executed.values().filter(|times| **times > 1).count();
        let good = self.answers.iter().filter(|(_, status)| **status == 200);
        let never = good.filter(|(number, _)| !executed.contains_key(*number)).count();
        format!("{twice} executed twice, {never} answered and not executed")
    }
}

/// Also when an answer was late, until it is told to stop.
fn call(shared: &Shared, port: u16, first: Instant) {
    let mut next = first;
    let mut connection = None;
    while !shared.stop.load(Ordering::Relaxed) {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next += BETWEEN;
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let mut open = || -> Result<u16> {
            let mut used = match connection.take() {
                Some(open) => open,
                None => Connection::open("127.0.0.1", port)?,
            };
            let status = used.call("/fn/default/updated", &json!({"n": number}).to_string())?;
            connection = Some(used);
            Ok(status)
        };
        let status = open().unwrap_or(0);
        if let Ok(mut answers) = shared.answers.lock() {
            answers.insert(number, status);
        }
    }
}
