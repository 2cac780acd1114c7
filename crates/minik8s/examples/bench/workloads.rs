//! The control loops through the API: pods bound per second, a large Deployment, and what many idle pods cost.
//!
//! The nodes are simulated by the same binary (`minik8s simulate`), in a process of their own so that their cost is
//! not counted as the server's.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::client::Client;
use crate::measure::{Results, pod};
use crate::server::Server;

const NODES: usize = 100;
const PODS: usize = 4_000;
const REPLICAS: usize = 1_000;
const TIMEOUT: Duration = Duration::from_secs(120);

pub async fn workloads(binary: &Path, results: &mut Results) -> anyhow::Result<()> {
    let server = Server::start(binary).await?;
    let _nodes = SimulatedNodes::join(binary, &server).await?;
    binds(&server, results).await?;
    deployment(&server, results).await?;
    idle(&server, results).await
}

/// `minik8s simulate`, ended with the measurement.
struct SimulatedNodes(Child);

impl SimulatedNodes {
    async fn join(binary: &Path, server: &Server) -> anyhow::Result<Self> {
        let child = Command::new(binary)
            .args(["simulate", "--nodes", &NODES.to_string(), "--kubeconfig"])
            .arg(&server.kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let nodes = SimulatedNodes(child);
        let mut client = server.client().await?;
        let started = Instant::now();
        while ready_nodes(&mut client).await? < NODES {
            ensure!(started.elapsed() < TIMEOUT, "the simulated nodes did not become ready");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(nodes)
    }
}

impl Drop for SimulatedNodes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn ready_nodes(client: &mut Client) -> anyhow::Result<usize> {
    let list: Value = serde_json::from_slice(&client.get("/api/v1/nodes").await?)?;
    let ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array();
        let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        conditions.is_some_and(|conditions| conditions.iter().any(ready))
    };
    Ok(list["items"].as_array().map_or(0, |nodes| nodes.iter().filter(ready).count()))
}

/// From the first create to the last binding, all seen by one watch.
async fn binds(server: &Server, results: &mut Results) -> anyhow::Result<()> {
    const PATH: &str = "/api/v1/namespaces/default/pods";
    let mut watcher = server.client().await?;
    let mut events =
        Events::open(&mut watcher, &format!("{PATH}?watch=1&fieldSelector=spec.nodeName!%3D")).await?;
    let started = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let mut client = server.client().await?;
        writers.spawn(async move {
            for i in (writer..PODS).step_by(16) {
                client.post(PATH, &pod(i, "default-scheduler")).await?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    events.until_added(PODS).await?;
    let rate = PODS as f64 / started.elapsed().as_secs_f64();
    while let Some(done) = writers.join_next().await {
        done??;
    }
    let what = format!("{PODS} pods created and bound through the API, {NODES} nodes");
    results.add(&what, format!("{rate:.0}/s"), "≥ 1,000/s");
    Ok(())
}

async fn deployment(server: &Server, results: &mut Results) -> anyhow::Result<()> {
    let mut watcher = server.client().await?;
    let path = "/api/v1/namespaces/default/pods?watch=1&labelSelector=app%3Dlarge";
    let mut events = Events::open(&mut watcher, path).await?;
    let labels = json!({"app": "large"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "large"},
        "spec": {
            "replicas": REPLICAS, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example/image:1"}]},
            },
        },
    });
    let mut client = server.client().await?;
    let started = Instant::now();
    client.post("/apis/apps/v1/namespaces/default/deployments", &deployment.to_string()).await?;
    events.until_added(REPLICAS).await?;
    let took = started.elapsed().as_secs_f64();
    results.add(&format!("Deployment of {REPLICAS}: until its pods exist"), format!("{took:.2} s"), "≤ 1 s");
    Ok(())
}

async fn idle(server: &Server, results: &mut Results) -> anyhow::Result<()> {
    const SETTLE: Duration = Duration::from_secs(10);
    const WINDOW: Duration = Duration::from_secs(20);
    tokio::time::sleep(SETTLE).await;
    let before = server.cpu()?;
    tokio::time::sleep(WINDOW).await;
    let percent = (server.cpu()? - before).as_secs_f64() / WINDOW.as_secs_f64() * 100.0;
    // The simulated nodes' heartbeats are part of it.
    let what = format!("server with {} idle pods on {NODES} nodes", PODS + REPLICAS);
    results.add(&what, format!("{:.0} MB, {percent:.2} % of a core", server.rss_mb()?), "1 %");
    Ok(())
}

/// A watch's lines.
struct Events {
    body: hyper::body::Incoming,
    rest: Vec<u8>,
}

impl Events {
    async fn open(client: &mut Client, path: &str) -> anyhow::Result<Events> {
        Ok(Events { body: client.open(Method::GET, path, "").await?, rest: Vec::new() })
    }

    async fn until_added(&mut self, wanted: usize) -> anyhow::Result<()> {
        let mut seen = 0;
        while seen < wanted {
            let frame = tokio::time::timeout(TIMEOUT, self.body.frame());
            let frame = frame.await.with_context(|| format!("{seen} of {wanted} after {TIMEOUT:?}"))?;
            let Ok(bytes) = frame.context("the watch ended")??.into_data() else { continue };
            self.rest.extend_from_slice(&bytes);
            let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            // Serialised by the server in this order; parsing all of it would measure the benchmark.
            let lines = self.rest.drain(..end).collect::<Vec<u8>>();
            let added = |line: &&[u8]| line.starts_with(br#"{"type":"ADDED""#);
            seen += lines.split(|byte| *byte == b'\n').filter(added).count();
        }
        Ok(())
    }
}
