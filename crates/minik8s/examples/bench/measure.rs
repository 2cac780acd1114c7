//! The measurements, one function each.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;

use crate::client::Client;
use crate::peers::{self, Nginx};
use crate::server::Server;

const CLIENTS: usize = 64;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What was measured beside what was wanted.
#[derive(Default)]
pub struct Results(Vec<(String, String, String)>);

impl Results {
    pub fn add(&mut self, what: &str, measured: String, target: &str) {
        eprintln!("{what}: {measured}");
        self.0.push((what.to_owned(), measured, target.to_owned()));
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| What | Measured | Target |\n|---|---|---|")?;
        self.0
            .iter()
            .try_for_each(|(what, measured, target)| writeln!(f, "| {what} | {measured} | {target} |"))
    }
}

pub async fn api(binary: &Path, time: Duration, results: &mut Results) -> anyhow::Result<()> {
    let server = Server::start(binary).await?;
    results.add(
        "ready after exec, fresh data dir",
        format!("{:.2} s", server.ready_after.as_secs_f64()),
        "1 s",
    );
    idle(&server, results).await?;
    idle_watches(binary, results).await?;
    watch_latency(&server, results).await?;
    busy_watches(&server, results).await?;
    writes(&server, time, results).await
}

async fn idle(server: &Server, results: &mut Results) -> anyhow::Result<()> {
    const WINDOW: Duration = Duration::from_secs(10);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = server.cpu()?;
    tokio::time::sleep(WINDOW).await;
    let percent = (server.cpu()? - before).as_secs_f64() / WINDOW.as_secs_f64() * 100.0;
    results.add(
        "server alone, idle",
        format!("{:.0} MB, {percent:.2} % of a core", server.rss_mb()?),
        "40 MB, 0.3 %",
    );
    Ok(())
}

/// Each on a server of its own: what the first left behind would serve the second.
async fn idle_watches(binary: &Path, results: &mut Results) -> anyhow::Result<()> {
    const WATCHES: usize = 1000;
    const EACH: usize = 20;
    let path = format!("{CONFIG_MAPS}?watch=1");
    let server = Server::start(binary).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = server.rss_mb()?;
    let mut shared = Vec::new();
    for _ in 0..WATCHES / EACH {
        let mut client = server.shared_client().await?;
        let mut watches = Vec::new();
        for _ in 0..EACH {
            watches.push(client.open(&path).await?);
        }
        shared.push((client, watches));
    }
    let grown = server.rss_mb()? - before;
    let what = format!("1,000 idle watches, {EACH} to a connection as clients in Go hold them");
    results.add(&what, format!("{grown:.0} MB"), "20 MB");
    let server = Server::start(binary).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = server.rss_mb()?;
    let mut alone = Vec::with_capacity(WATCHES);
    for _ in 0..WATCHES {
        let mut client = server.client().await?;
        let watch = client.open(Method::GET, &path, "").await?;
        alone.push((client, watch));
    }
    let grown = server.rss_mb()? - before;
    results.add("1,000 idle watches, a TLS connection each", format!("{grown:.0} MB"), "20 MB");
    Ok(())
}

async fn watch_latency(server: &Server, results: &mut Results) -> anyhow::Result<()> {
    const WRITES: usize = 500;
    let mut writer = server.client().await?;
    writer.post(CONFIG_MAPS, &config_map("latency", 100)).await?;
    let mut watcher = server.client().await?;
    let path = format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Dlatency");
    let mut events = watcher.open(Method::GET, &path, "").await?;
    next_chunk(&mut events).await?;
    let mut latencies = Vec::with_capacity(WRITES);
    for i in 0..WRITES {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "latency"}, "data": {"i": i.to_string()},
        });
        // From before the request: what a client that waits for its own write to come back sees.
        let path = format!("{CONFIG_MAPS}/latency");
        let text = body.to_string();
        let begun = Instant::now();
        let (written, seen) = tokio::join!(writer.put(&path, &text), async {
            next_chunk(&mut events).await.map(|()| begun.elapsed())
        });
        written?;
        latencies.push(seen?);
    }
    latencies.sort_unstable();
    let at = |percent: usize| latencies[WRITES * percent / 100].as_secs_f64() * 1000.0;
    results.add("request → watch event", format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99)), "p50 2 ms");
    Ok(())
}

/// One object, of which every update reaches everybody.
async fn busy_watches(server: &Server, results: &mut Results) -> anyhow::Result<()> {
    const WATCHES: usize = 100;
    const EACH: usize = 20;
    const UPDATES: usize = 500;
    let mut writer = server.client().await?;
    writer.post(CONFIG_MAPS, &config_map("busy", 100)).await?;
    let path = format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Dbusy");
    let (mut clients, mut watching) = (Vec::new(), tokio::task::JoinSet::new());
    for _ in 0..WATCHES / EACH {
        let mut client = server.shared_client().await?;
        for _ in 0..EACH {
            let mut events = client.open(&path).await?;
            next_chunk(&mut events).await?;
            watching.spawn(arrivals(events, UPDATES));
        }
        clients.push(client);
    }
    let (path, mut begun) = (format!("{CONFIG_MAPS}/busy"), Vec::with_capacity(UPDATES));
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    for i in 0..UPDATES {
        pace.tick().await;
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "busy"}, "data": {"i": i.to_string()},
        });
        let text = body.to_string();
        begun.push(Instant::now());
        writer.put(&path, &text).await?;
    }
    let mut latencies = Vec::with_capacity(WATCHES * UPDATES);
    while let Some(arrived) = watching.join_next().await {
        latencies.extend(arrived??.iter().zip(&begun).map(|(arrived, begun)| arrived.duration_since(*begun)));
    }
    latencies.sort_unstable();
    let at = |percent: usize| latencies[latencies.len() * percent / 100].as_secs_f64() * 1000.0;
    let measured = format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99));
    results.add("request → event at 100 watches, 100 updates a second", measured, "p50 2 ms");
    Ok(())
}

/// When each of so many events came: a line each, several of them at once if the reader is late.
async fn arrivals(mut events: hyper::body::Incoming, count: usize) -> anyhow::Result<Vec<Instant>> {
    let mut arrivals = Vec::with_capacity(count);
    while arrivals.len() < count {
        let frame = events.frame().await.context("the watch ended")??;
        let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
        arrivals.resize(arrivals.len() + lines, Instant::now());
    }
    Ok(arrivals)
}

async fn next_chunk(body: &mut hyper::body::Incoming) -> anyhow::Result<()> {
    body.frame().await.context("the watch ended")??;
    Ok(())
}

async fn writes(server: &Server, time: Duration, results: &mut Results) -> anyhow::Result<()> {
    const SIZE: usize = 1000;
    let end = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..CLIENTS {
        let mut client = server.client().await?;
        tasks.spawn(async move {
            let mut done = 0u64;
            while Instant::now() < end {
                client.post(CONFIG_MAPS, &config_map(&format!("bench-{i}-{done}"), SIZE)).await?;
                done += 1;
            }
            Ok::<u64, anyhow::Error>(done)
        });
    }
    let mut total = 0;
    while let Some(done) = tasks.join_next().await {
        total += done??;
    }
    let ours = total as f64 / time.as_secs_f64();
    let etcd = peers::etcd_puts(CLIENTS, SIZE, time).await?;
    let text = format!("{ours:.0}/s against {etcd:.0}/s: {:.2} ×", ours / etcd);
    results.add("durable creates over HTTPS, 64 clients, against raw etcd puts", text, "≥ 1 ×");
    Ok(())
}

pub async fn lists(binary: &Path, results: &mut Results) -> anyhow::Result<()> {
    const PODS: usize = 10_000;
    let server = Server::start(binary).await?;
    let mut admin = server.client().await?;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).to_string();
    // The service account controller may have been faster.
    let _ = admin.post("/api/v1/namespaces/default/serviceaccounts", &account).await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..16 {
        let mut client = server.client().await?;
        tasks.spawn(async move {
            for i in (worker..PODS).step_by(16) {
                client.post("/api/v1/namespaces/default/pods", &pod(i, "none")).await?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    // The server closes connections that were quiet for so long.
    let mut admin = server.client().await?;
    let path = "/api/v1/pods";
    let content = admin.get(path).await?;
    let megabytes = content.len() as f64 / 1e6;
    let ours = fastest(&mut admin, path, &[]).await?;
    tables(&mut admin, path, results).await?;
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let nginx = Nginx::serve(&content, &key.cert.pem(), &key.signing_key.serialize_pem()).await?;
    let mut peer = Client::connect_trusting(nginx.port, key.cert.der().clone()).await?;
    let same = peer.get(Nginx::PATH).await?;
    anyhow::ensure!(same == content, "nginx serves other bytes");
    let theirs = fastest(&mut peer, Nginx::PATH, &[]).await?;
    let text = format!(
        "{:.0} ms for {megabytes:.0} MB against {:.0} ms: {:.2} ×",
        ours * 1000.0,
        theirs * 1000.0,
        ours / theirs
    );
    results.add("LIST of 10,000 pods, against nginx serving the same bytes as a file", text, "≤ 3 ×");
    Ok(())
}

/// What `kubectl get pods` asks for, and the same with gzip, as Go's clients do.
async fn tables(client: &mut Client, path: &str, results: &mut Results) -> anyhow::Result<()> {
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let gzip = ("accept-encoding", "gzip");
    for (what, headers, aim) in [
        ("LIST of 10,000 pods as a Table", &[table][..], "≤ 150 ms"),
        ("LIST of 10,000 pods as a Table, gzip", &[table, gzip], "-"),
        ("LIST of 10,000 pods, gzip", &[gzip], "-"),
    ] {
        let megabytes = client.get_with(path, headers).await?.len() as f64 / 1e6;
        let best = fastest(client, path, headers).await?;
        results.add(what, format!("{:.0} ms for {megabytes:.1} MB", best * 1000.0), aim);
    }
    Ok(())
}

async fn fastest(client: &mut Client, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let started = Instant::now();
        client.get_with(path, headers).await?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn config_map(name: &str, size: usize) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "x".repeat(size)}}).to_string()
}

/// A pod of ordinary size.
pub fn pod(i: usize, scheduler: &str) -> String {
    let env: Vec<_> =
        (0..10).map(|e| json!({"name": format!("VARIABLE_{e}"), "value": "some ordinary value"})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{i}"), "labels": {"app": "bench", "number": i.to_string()}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main", "image": "example/image:1", "env": env, "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
            }],
        },
    })
    .to_string()
}
