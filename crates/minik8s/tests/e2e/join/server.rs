//! A control plane of the test's own: the real binary, without a node.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use minik8s_auth::bootstrap_token::JoinToken;
use minik8s_join::{JoinError, Joining, Member, ServerAddress, join};
use tempfile::TempDir;

/// Long enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Server {
    pub dir: TempDir,
    port: u16,
    child: Child,
}

impl Server {
    pub async fn start() -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_minik8s"))
            .args(["server", "--no-agent", "--bind", "127.0.0.1", "--port", &port.to_string(), "--data-dir"])
            .arg(dir.path())
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut server = Server { dir, port, child };
        let begun = Instant::now();
        while !server.dir.path().join("join-token").exists()
            || server.admin().await.apiserver_version().await.is_err()
        {
            let log = || std::fs::read_to_string(server.dir.path().join("log")).unwrap();
            assert!(server.child.try_wait().unwrap().is_none() && begun.elapsed() < TIMEOUT, "{}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    pub fn address(&self) -> ServerAddress {
        format!("https://127.0.0.1:{}", self.port).parse().unwrap()
    }

    pub async fn admin(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.dir.path().join("admin.kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// Somebody whose only credential is a bearer token.
    pub async fn bearer(&self, token: &str) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.dir.path().join("admin.kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.auth_info =
            kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
        kube::Client::try_from(config).unwrap()
    }

    pub fn token(&self) -> JoinToken {
        std::fs::read_to_string(self.dir.path().join("join-token")).unwrap().parse().unwrap()
    }

    /// `minik8s token …`.
    pub fn token_command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minik8s"));
        command.arg("token").args(arguments).arg("--data-dir").arg(self.dir.path());
        command.output().unwrap()
    }

    pub fn joining(&self, directory: &Path, node_name: &str) -> Joining {
        Joining {
            directory: directory.to_owned(),
            node_name: node_name.to_owned(),
            address: Some("192.0.2.7".parse().unwrap()),
            servers: vec![self.address()],
            token: Some(self.token()),
        }
    }

    pub async fn join(&self, node_name: &str) -> (Member, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        (join(self.joining(directory.path(), node_name)).await.unwrap(), directory)
    }

    /// The words of a join that must fail.
    pub async fn refusal(&self, change: impl FnOnce(&mut Joining)) -> (JoinError, String) {
        let directory = tempfile::tempdir().unwrap();
        let mut joining = self.joining(directory.path(), "newcomer");
        change(&mut joining);
        let error = join(joining).await.err().expect("it must be refused");
        let text = error.to_string();
        (error, text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All files below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
