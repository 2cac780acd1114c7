//! What runs in the network of a pod: POSTs, which nobody may send twice, at a rate that does not depend on answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

const CLIENTS: usize = 64;
const REQUEST: &[u8] = b"POST /orders HTTP/1.1\r\nhost: web\r\ncontent-length: 1\r\n\r\nx";
const TIMEOUT: Duration = Duration::from_secs(30);
/// What is told of failures.
const MOST_SAID: usize = 5;

/// So many requests, so many a second, over kept connections.
pub async fn steady(to: SocketAddr, requests: u64, rate: u64) -> Result<()> {
    let (begun, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let said = Arc::<Mutex<Vec<String>>>::default();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (next, said) = (next.clone(), said.clone());
        clients.spawn(async move {
            let mut open = None;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return;
                }
                sleep_until(begun + Duration::from_micros(number * 1_000_000 / rate)).await;
                if let Err(error) =
                    timeout(TIMEOUT, once(to, &mut open)).await.unwrap_or_else(|late| Err(late.into()))
                {
                    open = None;
                    said.lock().push(format!("{number}: {error:#}"));
                }
            }
        });
    }
    while clients.join_next().await.is_some() {}
    let said = said.lock();
    let per_second = requests as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({"requests": requests, "failed": said.len(), "perSecond": per_second.round(),
            "said": said.iter().take(MOST_SAID).collect::<Vec<_>>()})
    );
    Ok(())
}

/// Opens connections, asks once on each, tells how many there are, and keeps them until its input ends.
pub async fn hold(to: SocketAddr, connections: usize) -> Result<()> {
    raise_files();
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut stream = None;
        once(to, &mut stream).await?;
        open.extend(stream);
    }
    println!("{}", open.len());
    let _ = tokio::io::stdin().read(&mut [0]).await;
    Ok(())
}

fn note_latest(last: &Mutex<Instant>) {
    let mut latest = last.lock();
    *latest = (*latest).max(Instant::now());
}

/// All within a second, and none is closed before all were answered.
pub async fn storm(to: SocketAddr, connections: u64) -> Result<()> {
    raise_files();
    let begun = Instant::now();
    let last = Arc::new(Mutex::new(begun));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..connections {
        let last = last.clone();
        clients.spawn(async move {
            sleep_until(begun + Duration::from_micros(number * 1_000_000 / connections)).await;
            let connected = timeout(TIMEOUT * 4, TcpStream::connect(to)).await??;
            note_latest(&last);
            let mut open = Some(connected);
            timeout(TIMEOUT * 4, once(to, &mut open)).await??;
            anyhow::Ok(())
        });
    }
    let (mut failed, mut said) = (0, Vec::new());
    while let Some(ended) = clients.join_next().await {
        if let Err(error) = ended? {
            failed += 1;
            said.push(format!("{error:#}"));
        }
    }
    said.truncate(MOST_SAID);
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    println!(
        "{}",
        json!({"failed": failed, "connected": seconds(*last.lock() - begun), "answered": seconds(begun.elapsed()),
            "said": said})
    );
    Ok(())
}

/// On the connection that is open, or a new one; one that the other side ends with its answer is not kept.
async fn once(to: SocketAddr, open: &mut Option<TcpStream>) -> Result<()> {
    let mut stream = match open.take() {
        Some(stream) => stream,
        None => TcpStream::connect(to).await?,
    };
    stream.set_nodelay(true)?;
    stream.write_all(REQUEST).await?;
    let (mut buffer, mut length) = ([0; 2048], 0);
    while !buffer[..length].ends_with(b"answered\n") {
        let read = stream.read(&mut buffer[length..]).await?;
        ensure!(read > 0, "closed after {:?}", String::from_utf8_lossy(&buffer[..length]));
        length += read;
        if length == buffer.len() {
            bail!("a long answer");
        }
        let text = &buffer[..length];
        ensure!(length < 12 || text.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(text));
    }
    let closes = buffer[..length].windows(17).any(|part| part.eq_ignore_ascii_case(b"connection: close"));
    *open = (!closes).then_some(stream);
    Ok(())
}

/// As many files as are allowed.
fn raise_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
