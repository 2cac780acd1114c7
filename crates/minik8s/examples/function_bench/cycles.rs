//! Functions called at random, with pauses that let them go to zero: no call is lost, none is executed twice.
//!
//! A ledger counts what was executed, by the call's own number; answers say which instance it was.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::Bench;
use crate::http::Connection;
use crate::ledger::{HANDLER, Ledger};

const FUNCTIONS: usize = 12;
/// Functions end a second after their last call: some pauses are shorter, most are longer.
const LONGEST_PAUSE: u64 = 5000;
const TIMEOUT: Duration = Duration::from_secs(3000);

#[derive(Default)]
struct Seen {
    calls: usize,
    failed: usize,
    instances: BTreeSet<String>,
}

impl Bench<'_> {
    pub async fn cycles(&self, instances: usize) -> Result<String> {
        let ledger = Ledger::listen()?;
        let names: Vec<String> = (0..FUNCTIONS).map(|n| format!("cycle-{n}")).collect();
        for name in &names {
            self.post_code(name, HANDLER, &[ledger.variable()]).await?;
            self.until_served(name).await?;
        }
        let (seen, begun, port) =
            (Arc::new(Mutex::new(Seen::default())), Instant::now(), self.cluster.http_port());
        let clients: Vec<_> = names
            .into_iter()
            .zip(1..)
            .map(|(name, mut random)| {
                let seen = seen.clone();
                std::thread::spawn(move || {
                    let is_over = || seen.lock().is_ok_and(|seen| seen.instances.len() >= instances);
                    while !is_over() && begun.elapsed() < TIMEOUT {
                        std::thread::sleep(Duration::from_millis(next(&mut random) % LONGEST_PAUSE));
                        one(&name, port, &seen);
                    }
                })
            })
            .collect();
        tokio::task::spawn_blocking(move || clients.into_iter().for_each(|client| drop(client.join())))
            .await?;
        let seen = seen.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
        let executed = ledger.counts()?;
        if seen.instances.len() < instances {
            bail!("only {} of {instances} instances in {TIMEOUT:?}", seen.instances.len());
        }
        let twice = executed.values().filter(|times| **times > 1).count();
        let lost = seen.failed + seen.calls - executed.len().min(seen.calls);
        Ok(format!(
            "{FUNCTIONS} functions called at random for {:.0} s: {} instances, {} calls, {lost} lost, {twice} executed \
             twice; target 0, 0\n",
            begun.elapsed().as_secs_f64(),
            seen.instances.len(),
            seen.calls,
        ))
    }
}

/// Numbers that look random, the same in each run (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 20
}

fn one(name: &str, port: u16, seen: &Mutex<Seen>) {
    let Ok(number) = seen.lock().map(|mut seen| {
        seen.calls += 1;
        seen.calls
    }) else {
        return;
    };
    let call = || -> Result<String> {
        let body = json!({"n": number}).to_string();
        let (status, answer) =
            Connection::open("127.0.0.1", port)?.ask(&format!("/fn/default/{name}"), &body)?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let instance = answer["instance"].as_str().filter(|_| status == 200).context("no instance")?;
        Ok(instance.to_owned())
    };
    let called = call();
    let Ok(mut seen) = seen.lock() else { return };
    match called {
        Ok(instance) => _ = seen.instances.insert(instance),
        Err(_) => seen.failed += 1,
    }
}
