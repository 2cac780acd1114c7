//! A mesh under load, on a real node: a canary, a RollingUpdate and another program for every proxy while a pod sends 1,000
//! requests a second, of which none may fail; a storm of 10,000 connections in a second; and what a proxy costs.
//!
//! Usage: `mesh_traffic MINIK8S_BINARY [REQUESTS [RATE]]`. It starts the binary as a server with its node, with a data dir of
//! its own (below the current directory), and removes everything at the end. Needs root. In pods, this very program answers;
//! in the network of a pod, it asks.

mod cluster;
mod load;
mod serve;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cluster::{Cluster, IMAGES};
use serde_json::{Value, json};

const CONNECTIONS: usize = 1000;
const STORM: usize = 10_000;
const TIMEOUT: Duration = Duration::from_secs(180);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words[..] {
        ["serve"] => runtime.block_on(serve::run()),
        ["load", to, requests, rate] => {
            runtime.block_on(load::steady(to.parse()?, requests.parse()?, rate.parse()?))
        }
        ["hold", to, connections] => runtime.block_on(load::hold(to.parse()?, connections.parse()?)),
        ["storm", to, connections] => runtime.block_on(load::storm(to.parse()?, connections.parse()?)),
        [binary] => measure(binary.into(), 50_000, 1000),
        [binary, requests] => measure(binary.into(), requests.parse()?, 1000),
        [binary, requests, rate] => measure(binary.into(), requests.parse()?, rate.parse()?),
        [] => bail!("usage: mesh_traffic MINIK8S_BINARY [REQUESTS [RATE]]"),
        _ => bail!("unknown arguments {words:?}"),
    }
}

fn measure(binary: PathBuf, requests: u64, rate: u64) -> Result<()> {
    let mut cluster = Cluster::start(&binary)?;
    let measured = Measurement { requests, rate }.run(&mut cluster);
    cluster.tear_down();
    measured
}

struct Measurement {
    requests: u64,
    rate: u64,
}

impl Measurement {
    fn run(&self, cluster: &mut Cluster) -> Result<()> {
        deploy(cluster)?;
        let service = cluster.address("web")?;
        memory(cluster, &service)?;
        self.under_load(cluster, "canary 0, 10, 50, 100 %", &service, |cluster| {
            let begun = Instant::now();
            while begun.elapsed() < self.lasts() {
                for share in [0, 10, 50, 100] {
                    let (v1, v2) = (format!("v1={}", 100 - share), format!("v2={share}"));
                    cluster.run(&["mesh", "split", "web", &v1, &v2, "--timeout", "60s"])?;
                    std::thread::sleep(Duration::from_secs(2));
                }
            }
            Ok(())
        })?;
        let rolled = cluster.address("rolled")?;
        self.under_load(cluster, "RollingUpdate of 4 pods", &rolled, |cluster| {
            let words = ["--min-alive", "2", "--interval", "2s"];
            cluster.run(&[&["rollout", "mesh", "rolled", "--image", IMAGES[1]], &words[..]].concat())?;
            Ok(())
        })?;
        self.under_load(cluster, "another program for all proxies", &service, |cluster| {
            cluster.replace_program()?;
            cluster.wait_for_proxies()
        })?;
        storm(cluster, &service)
    }

    fn lasts(&self) -> Duration {
        Duration::from_secs(self.requests / self.rate)
    }

    /// The load lasts at least as long as the change.
    fn under_load(
        &self,
        cluster: &mut Cluster,
        what: &str,
        to: &str,
        change: impl FnOnce(&mut Cluster) -> Result<()>,
    ) -> Result<()> {
        let (requests, rate) = (self.requests.to_string(), self.rate.to_string());
        let load = cluster.beside("client", &["load", to, &requests, &rate])?.spawn()?;
        std::thread::sleep(Duration::from_secs(1));
        let begun = Instant::now();
        change(cluster)?;
        let took = begun.elapsed();
        let found = outcome(load)?;
        let (failed, sent, per_second) = (&found["failed"], &found["requests"], &found["perSecond"]);
        let word = if *failed == 0 { "ok" } else { "short" };
        println!(
            "{what}, {:.0} s of it: {failed} of {sent} failed at {per_second}/s, target 0   {word}",
            took.as_secs_f64()
        );
        if *failed != 0 {
            println!("  {}", found["said"]);
        }
        Ok(())
    }
}

/// What a load tells at its end.
fn outcome(load: std::process::Child) -> Result<Value> {
    let output = load.wait_with_output()?;
    ensure!(output.status.success(), "the load: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("what the load tells")
}

/// Two versions of a Service, another whose pods are nobody's, and a client.
fn deploy(cluster: &Cluster) -> Result<()> {
    let pod = |image: &str| {
        let probe = json!({"tcpSocket": {"port": serve::PORT}, "periodSeconds": 1});
        json!({"terminationGracePeriodSeconds": 10, "containers": [
            {"name": "main", "image": image, "readinessProbe": probe}]})
    };
    let labels = |app: &str, version: &str| json!({"app": app, "version": version});
    for version in ["v1", "v2"] {
        let template = json!({"metadata": {"labels": labels("web", version)}, "spec": pod(IMAGES[0])});
        cluster.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": version},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels("web", version)}, "template": template}}))?;
        cluster
            .apply(&json!({"apiVersion": "minik8s.io/v1", "kind": "Subset", "metadata": {"name": version},
            "spec": {"selector": {"matchLabels": {"version": version}}}}))?;
    }
    for (name, app) in
        [("r1", "rolled"), ("r2", "rolled"), ("r3", "rolled"), ("r4", "rolled"), ("client", "client")]
    {
        cluster.apply(&json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": app}}, "spec": pod(IMAGES[0])}))?;
    }
    cluster.apply(&json!({"apiVersion": "minik8s.io/v1", "kind": "Subset", "metadata": {"name": "all"},
        "spec": {"selector": {"matchLabels": {"app": "rolled"}}}}))?;
    for name in ["web", "rolled"] {
        cluster.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": serve::PORT}]}}))?;
    }
    cluster.run(&["wait", "pod", "--all", "--for=condition=Ready", "--timeout=180s"])?;
    cluster.run(&["mesh", "split", "web", "v1=100", "v2=0", "--timeout", "60s"])?;
    cluster.run(&["mesh", "split", "rolled", "all=1", "--timeout", "60s"])?;
    Ok(())
}

/// Of the client's proxy, idle and with connections that have asked once; resident, and its own of that.
fn memory(cluster: &Cluster, to: &str) -> Result<()> {
    let verdict = |what: &str, (resident, own): (f64, f64), (most, most_own): (f64, f64)| {
        let word = if resident <= most && own <= most_own { "ok" } else { "short" };
        println!(
            "a proxy {what}: {resident:.1} MB, {own:.1} of them its own, target {most} and {most_own}   {word}"
        );
    };
    verdict("that is idle", cluster.memory("client")?, (5.0, 2.0));
    let mut holding = cluster.beside("client", &["hold", to, &CONNECTIONS.to_string()])?;
    let mut holding = holding.stdin(std::process::Stdio::piped()).spawn()?;
    let mut line = String::new();
    let told = holding.stdout.take().context("its output")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(told), &mut line)?;
    verdict(&format!("with {} connections", line.trim()), cluster.memory("client")?, (8.0, 8.0));
    drop(holding.stdin.take());
    holding.wait()?;
    Ok(())
}

/// None is refused, and no proxy is ended.
fn storm(cluster: &Cluster, to: &str) -> Result<()> {
    let found = outcome(cluster.beside("client", &["storm", to, &STORM.to_string()])?.spawn()?)?;
    let restarts = cluster.run(&[
        "get",
        "pods",
        "-o",
        "jsonpath={.items[*].status.initContainerStatuses[*].restartCount}",
    ])?;
    let is_whole = restarts.split_whitespace().all(|count| count == "0");
    let word = if found["failed"] == 0 && is_whole { "ok" } else { "short" };
    println!(
        "{STORM} connections in {}: {} refused or not answered, the last after {}, target 0; restarts of proxies: \
         {restarts}   {word}",
        found["connected"], found["failed"], found["answered"]
    );
    println!(
        "the client's proxy afterwards: {:.1} MB, {:.1} of them its own",
        cluster.memory("client")?.0,
        cluster.memory("client")?.1
    );
    Ok(())
}

/// Runs a command to its end.
fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
