//! CPU per request of the router and of nginx, side by side: `cargo run --release -p minik8s-router --example router_bench`.
//!
//! Each serves the same small answers of one backend over kept connections, with one thread, for a few seconds. The
//! proxies are processes of their own, so that their CPU time can be read from /proc. Without nginx (Debian's
//! `nginx-light`) only the router is measured.

#[allow(dead_code, reason = "another measurement uses the rest")]
#[path = "../../network/examples/dns_bench/process.rs"]
mod process;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use minik8s_router::proxy::{Client, Shared, Worker};
use minik8s_router::table::{Objects, build};
use process::{Process, free_port, is_installed, median, verdict};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const CONNECTIONS: usize = 32;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_millis(1500);
/// In turns, so that what else the machine does hits both.
const ROUNDS: usize = 3;
const REQUEST: &[u8] =
    b"GET /api/items?id=7 HTTP/1.1\r\nhost: bench.example\r\nuser-agent: bench\r\naccept: */*\r\n\r\n";
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\r\nhello, world\n";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => runtime.block_on(compare()),
        ["backend", port] => runtime.block_on(backend(port.parse()?)),
        ["router", port, backend] => runtime.block_on(router(port.parse()?, backend.parse()?)),
        other => bail!("unknown arguments {other:?}"),
    }
}

async fn compare() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let me = std::env::current_exe()?;
    let [back, own, theirs] = [free_port()?, free_port()?, free_port()?];
    let _backend = Process::start(Command::new(&me).args(["backend", &back.to_string()]))?;
    let router =
        Process::start(Command::new(&me).args(["router", &own.to_string(), &format!("127.0.0.1:{back}")]))?;
    let nginx = match is_installed("nginx", "-v") {
        true => {
            Some(Process::start(Command::new("nginx").arg("-c").arg(nginx_conf(dir.path(), theirs, back)?))?)
        }
        false => None,
    };
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(measure("router", own, &router).await?);
        if let Some(nginx) = &nginx {
            others.push(measure("nginx", theirs, nginx).await?);
        }
    }
    if others.is_empty() {
        println!("nginx is not installed: nothing to compare with");
        return Ok(());
    }
    verdict("router: CPU per request, as a multiple of nginx's", median(ours) / median(others), "", 1.0);
    Ok(())
}

/// Microseconds of CPU per request.
async fn measure(name: &str, port: u16, server: &Process) -> Result<f64> {
    wait_for(port).await?;
    let count = Arc::new(AtomicU64::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(client(port, count.clone()));
    }
    tokio::time::sleep(WARM_UP).await;
    let (requests, cpu, began) = (count.load(Ordering::Relaxed), server.cpu()?, Instant::now());
    tokio::time::sleep(MEASURED).await;
    let requests = count.load(Ordering::Relaxed) - requests;
    let (used, took) = (server.cpu()? - cpu, began.elapsed());
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
    let mut buffer = vec![0; 4096];
    loop {
        stream.write_all(REQUEST).await?;
        let mut length = 0;
        while !buffer[..length].ends_with(b"hello, world\n") {
            let read = stream.read(&mut buffer[length..]).await?;
            ensure!(read > 0, "closed");
            length += read;
        }
        ensure!(buffer.starts_with(b"HTTP/1.1 200"), "not 200");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

async fn backend(port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            let mut length = 0;
            while let Ok(read) = stream.read(&mut buffer[length..]).await {
                length += read;
                if read == 0 || length == buffer.len() {
                    return;
                }
                if buffer[..length].ends_with(b"\r\n\r\n") {
                    length = 0;
                    if stream.write_all(ANSWER).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
}

async fn router(port: u16, backend: SocketAddr) -> Result<()> {
    let meta = json!({"name": "s", "namespace": "ns", "labels": {"kubernetes.io/service-name": "s"}});
    let dns = json!({"metadata": meta, "spec": {"rules": [{"host": "bench.example", "paths": [
        {"path": "/api", "backend": {"service": {"name": "s", "port": 80}}},
    ]}]}});
    let slice = json!({"metadata": meta, "addressType": "IPv4", "ports": [{"port": backend.port()}],
        "endpoints": [{"addresses": [backend.ip()]}]});
    let objects = Objects {
        dns: vec![Arc::new(serde_json::from_value(dns)?)],
        services: vec![Arc::new(serde_json::from_value(
            json!({"metadata": meta, "spec": {"ports": [{"port": 80}]}}),
        )?)],
        slices: vec![Arc::new(serde_json::from_value(slice)?)],
        ..Objects::default()
    };
    let shared = Arc::new(Shared::default());
    shared.table.send_replace(Arc::new(build(&objects, "cluster.local")));
    let worker = Worker::start(shared, CancellationToken::new());
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let worker = worker.clone();
        tokio::spawn(async move { worker.serve(stream, Client::new(peer, "http")).await });
    }
}

/// One process, kept connections, no log: the least that nginx can do. It takes the path away as the router does.
fn nginx_conf(dir: &Path, port: u16, backend: u16) -> Result<std::path::PathBuf> {
    let path = dir.join("nginx.conf");
    let dir = dir.display();
    let mut file = std::fs::File::create(&path)?;
    write!(
        file,
        "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  upstream back {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port}; server_name bench.example;
    location /api/ {{
      proxy_pass http://back/; proxy_http_version 1.1;
      proxy_set_header Connection \"\"; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Forwarded-Prefix /api;
    }}
  }}
}}
"
    )?;
    Ok(path)
}

async fn wait_for(port: u16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(Instant::now() < deadline, "nobody listens on port {port}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
