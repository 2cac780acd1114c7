//! The cluster under test: a control plane and an agent, each a process of its own.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use minik8s_kubelet::Config;
use minik8s_kubelet::image::{BUSYBOX, busybox};
use serde_json::json;

const NODE: &str = "bench-node";
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Cluster {
    binary: PathBuf,
    directory: tempfile::TempDir,
    server: Program,
    agent: Program,
    pods: Option<Api<Pod>>,
    http_port: u16,
}

impl Cluster {
    pub fn start(binary: &Path) -> Result<Cluster> {
        let directory = tempfile::tempdir_in(std::env::current_dir()?)?;
        let (control, node) = (directory.path().join("server"), directory.path().join("node"));
        let port =
            || -> Result<String> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string()) };
        let server_port = port()?;
        let server = Program::start(
            Command::new(binary)
                .args(["server", "--no-agent", "--port", &server_port])
                .args(["--cluster-cidr", "10.148.0.0/16", "--service-cidr", "10.149.0.0/16", "--data-dir"])
                .arg(&control),
        )?;
        let token = control.join("join-token");
        let begun = Instant::now();
        while !token.exists() {
            if begun.elapsed() > TIMEOUT {
                bail!("{} made no join token", binary.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let http_port = port()?;
        let agent = Program::start(
            Command::new(binary)
                .args(["agent", "--node-name", NODE, "--node-port", &port()?, "--http-port", &http_port])
                .args(["--https-port", &port()?, "--max-pods", "500"])
                .args(["--server", &format!("https://127.0.0.1:{server_port}")])
                .args(["--token", &format!("@{}", token.display()), "--data-dir"])
                .arg(&node),
        )?;
        let http_port = http_port.parse()?;
        Ok(Cluster { binary: binary.to_owned(), directory, server, agent, pods: None, http_port })
    }

    /// Where the node's router listens.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    fn node_dir(&self) -> PathBuf {
        self.directory.path().join("node")
    }

    /// Waits for the node and gives it the image.
    pub async fn ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while !self.is_ready().await.unwrap_or(false) {
            if begun.elapsed() > TIMEOUT || self.server.has_ended()? || self.agent.has_ended()? {
                bail!("{} did not become ready", self.binary.display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let archive = self.directory.path().join("busybox.tar");
        busybox()?.write(std::fs::File::create(&archive)?)?;
        let load = Command::new(&self.binary)
            .args(["image", "load", "--data-dir"])
            .args([self.node_dir(), archive])
            .stdout(Stdio::null())
            .status()?;
        if !load.success() {
            bail!("the image was not loaded");
        }
        Ok(())
    }

    async fn is_ready(&mut self) -> Result<bool> {
        let kubeconfig = Kubeconfig::read_from(self.directory.path().join("server/admin.kubeconfig"))?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = kube::Client::try_from(config)?;
        let node = Api::<Node>::all(client.clone()).get(NODE).await?;
        let mut conditions = node.status.and_then(|status| status.conditions).into_iter().flatten();
        self.pods = Some(Api::default_namespaced(client));
        Ok(conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    }

    pub fn pods(&self) -> Result<Api<Pod>> {
        self.pods.clone().context("not ready")
    }

    /// Creates pods at once; the time until a watch has shown all of them running.
    pub async fn run_pods(&self, prefix: &str, count: usize) -> Result<Duration> {
        let api = self.pods()?;
        let mut events = std::pin::pin!(watcher(api.clone(), watcher::Config::default()));
        while !matches!(events.try_next().await?, Some(watcher::Event::InitDone) | None) {}
        let begun = Instant::now();
        let create = (0..count).map(|n| {
            let api = api.clone();
            let container = json!({"name": "main", "image": BUSYBOX, "command": ["sleep", "100000"]});
            let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 0});
            let pod = json!({"metadata": {"name": format!("{prefix}{n}")}, "spec": spec});
            async move {
                api.create(&PostParams::default(), &serde_json::from_value(pod)?).await.context("create")
            }
        });
        let created = futures::stream::iter(create).buffer_unordered(32).try_collect::<Vec<_>>();
        let seen = async {
            let mut running = BTreeSet::new();
            while running.len() < count {
                let Some(event) = events.try_next().await? else { bail!("the watch ended") };
                if let watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) = event
                    && pod.status.and_then(|status| status.phase).as_deref() == Some("Running")
                {
                    running.extend(pod.metadata.name.filter(|name| name.starts_with(prefix)));
                }
            }
            Ok(())
        };
        tokio::time::timeout(TIMEOUT * 3, async { tokio::try_join!(created, seen) }).await??;
        Ok(begun.elapsed())
    }

    pub async fn delete_pods(&self, prefix: &str, count: usize) -> Result<()> {
        let api = self.pods()?;
        for n in 0..count {
            let name = format!("{prefix}{n}");
            api.delete(&name, &DeleteParams::default()).await?;
            while api.get_opt(&name).await?.is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    pub fn config(&self) -> Config {
        Config::new(NODE, &self.node_dir(), IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    pub fn server(&self) -> &Program {
        &self.server
    }

    pub fn agent(&self) -> &Program {
        &self.agent
    }

    pub fn tear_down(&mut self) {
        self.agent.end();
        self.server.end();
        let _ = Command::new(&self.binary).args(["teardown", "--data-dir"]).arg(self.node_dir()).status();
    }
}

/// One process of the cluster, and what it costs.
pub struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Result<Program> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Program(started.with_context(|| format!("cannot run {:?}", command.get_program()))?))
    }

    fn has_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Resident memory in MB, and how much of it is not the program's own file.
    pub fn rss_mb(&self) -> Result<(f64, f64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let field = |name: &str| -> Result<f64> {
            let line = status.lines().find(|line| line.starts_with(name)).context("no such line")?;
            Ok(line.split_whitespace().nth(1).context("no number")?.parse::<f64>()? / 1024.0)
        };
        Ok((field("VmRSS:")?, field("RssAnon:")?))
    }

    /// CPU time used so far; Linux counts in hundredths of a second.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let after_name = stat.rsplit(')').next().context("no stat")?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        Ok(Duration::from_millis((fields[11].parse::<u64>()? + fields[12].parse::<u64>()?) * 10))
    }
}
