//! The server under test: its process, its credentials, what it costs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::client::{Client, Shared};

pub struct Server {
    child: Child,
    pub port: u16,
    pub kubeconfig: PathBuf,
    /// From exec to the first `/readyz` that says ok.
    pub ready_after: Duration,
    _directory: TempDir,
}

impl Server {
    pub async fn start(binary: &Path) -> anyhow::Result<Server> {
        let directory = tempfile::tempdir_in(".")?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let data_dir = directory.path().join("data");
        let started = Instant::now();
        let mut child = Command::new(binary)
            .args(["server", "--no-agent", "--bind", "127.0.0.1", "--port", &port.to_string(), "--data-dir"])
            .arg(&data_dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let kubeconfig = data_dir.join("admin.kubeconfig");
        loop {
            if child.try_wait()?.is_some() || started.elapsed() > Duration::from_secs(60) {
                bail!("{} did not become ready", binary.display());
            }
            if kubeconfig.exists()
                && let Ok(mut client) = Client::connect(port, &kubeconfig).await
                && client.get("/readyz").await.is_ok_and(|body| body.as_ref() == b"ok")
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(Server { child, port, kubeconfig, ready_after: started.elapsed(), _directory: directory })
    }

    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::connect(self.port, &self.kubeconfig).await
    }

    pub async fn shared_client(&self) -> anyhow::Result<Shared> {
        Shared::connect(self.port, &self.kubeconfig).await
    }

    /// Resident memory in MB.
    pub fn rss_mb(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib / 1024.0)
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit(')').next().context("no stat")?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        // Linux counts in hundredths of a second for user space.
        Ok(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
