//! A control plane of the test's own: the real binary, without a node.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use minik8s_auth::bootstrap_token::JoinToken;
use minik8s_join::{JoinError, Joining, Member, ServerAddress, join};
use tempfile::TempDir;

use crate::harness::{self, program::BINARY};

/// Long enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Server(harness::Server);

impl Server {
    pub async fn start() -> Server {
        let server = Server(harness::Server::start());
        let begun = Instant::now();
        while !server.dir().join("join-token").exists() {
            assert!(begun.elapsed() < TIMEOUT, "{}", server.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    pub fn dir(&self) -> PathBuf {
        self.0.data_dir()
    }

    pub fn log(&self) -> String {
        self.0.log()
    }

    pub fn address(&self) -> ServerAddress {
        format!("https://127.0.0.1:{}", self.0.port()).parse().unwrap()
    }

    pub async fn admin(&self) -> kube::Client {
        harness::client(&self.0.kubeconfig()).await.unwrap()
    }

    /// Somebody whose only credential is a bearer token.
    pub async fn bearer(&self, token: &str) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.0.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.auth_info =
            kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
        kube::Client::try_from(config).unwrap()
    }

    pub fn token(&self) -> JoinToken {
        std::fs::read_to_string(self.dir().join("join-token")).unwrap().parse().unwrap()
    }

    /// `minik8s token …`.
    pub fn token_command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.arg("token").args(arguments).arg("--data-dir").arg(self.dir());
        command.output().unwrap()
    }

    pub fn joining(&self, directory: &Path, node_name: &str) -> Joining {
        Joining {
            directory: directory.to_owned(),
            node_name: node_name.to_owned(),
            addresses: vec!["192.0.2.7".parse().unwrap()],
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

/// All files below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
