//! Loads other than as much as can be: a fixed rate, connections that do nothing, and many that come at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::process::{Process, verdict};
use crate::{CONNECTIONS, Peer, REQUEST, wait_for};

const LASTS: Duration = Duration::from_secs(3);
/// Connections that are open and silent.
const SILENT: usize = 1000;
/// Connections that come within a second.
const STORM: usize = 10_000;
/// Megabytes that a proxy's container has.
const LIMIT: f64 = 128.0;

/// Microseconds at the 99th percentile, from when a request was due: what waits for others counts.
pub async fn p99(port: u16, rate: u32) -> Result<f64> {
    wait_for(port).await?;
    let begun = Instant::now() + Duration::from_millis(100);
    let due = Arc::new(AtomicUsize::new(0));
    let total = rate as usize * LASTS.as_secs() as usize;
    let took = Arc::new(Mutex::new(Vec::with_capacity(total)));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS * 2 {
        let (due, took) = (due.clone(), took.clone());
        clients.spawn(async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
            stream.set_nodelay(true)?;
            loop {
                let number = due.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return anyhow::Ok(());
                }
                let at = begun + Duration::from_secs(1) * u32::try_from(number)? / rate;
                sleep_until(at).await;
                ask(&mut stream).await?;
                took.lock().push(at.elapsed().as_secs_f64() * 1e6);
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let mut took = std::mem::take(&mut *took.lock());
    took.sort_by(f64::total_cmp);
    Ok(took[took.len() * 99 / 100])
}

/// Of each, idle and with connections that have asked once.
pub async fn memory(peers: &[Peer]) -> Result<()> {
    for peer in peers {
        let idle = peer.process.memory()?;
        let mut open = Vec::new();
        for _ in 0..SILENT {
            let mut stream = TcpStream::connect(("127.0.0.1", peer.port)).await?;
            ask(&mut stream).await?;
            open.push(stream);
        }
        let busy = peer.process.memory()?;
        println!(
            "{}: {:.1} MB resident, {:.1} MB of them private; with {SILENT} connections {:.1} and {:.1}",
            peer.name, idle.0, idle.1, busy.0, busy.1
        );
        if peer.name == "sidecar" {
            verdict("sidecar: resident, idle", idle.0, "MB", 5.0);
            verdict("sidecar: private, idle", idle.1, "MB", 2.0);
            verdict("sidecar: resident, 1,000 connections", busy.0, "MB", 8.0);
        }
        drop(open);
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Connections that come within a second, each with one request: how many are refused or not answered, and how large the
/// proxies become.
pub async fn storm(name: &str, port: u16, proxies: &[&Process]) -> Result<()> {
    let failed = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..STORM {
        let failed = failed.clone();
        let at = begun + Duration::from_secs(1) * u32::try_from(number)? / u32::try_from(STORM)?;
        clients.spawn(async move {
            sleep_until(at).await;
            let one = async {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
                ask(&mut stream).await
            };
            if !matches!(timeout(Duration::from_secs(60), one).await, Ok(Ok(()))) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while clients.join_next().await.is_some() {}
    let (failed, took) = (failed.load(Ordering::Relaxed), begun.elapsed());
    let word = if failed == 0 { "ok" } else { "short" };
    println!("{name}: of {STORM} connections in a second {failed} were refused, target 0   {word}");
    println!("{name}: the last of them was answered after {:.2} s", took.as_secs_f64());
    for proxy in proxies {
        verdict(&format!("{name}: most memory in the storm"), proxy.peak()?, "MB", LIMIT);
    }
    Ok(())
}

pub async fn ask(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(REQUEST).await?;
    let (mut buffer, mut length) = ([0; 8192], 0);
    while !buffer[..length].ends_with(b"end\n") {
        let read = stream.read(&mut buffer[length..]).await?;
        ensure!(read > 0, "closed");
        length += read;
    }
    ensure!(buffer.starts_with(b"HTTP/1.1 200"), "not 200");
    Ok(())
}
