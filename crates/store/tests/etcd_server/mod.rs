//! A real etcd of one's own: on free loopback ports, with a directory that goes away with it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_store::{EtcdAddress, EtcdStore, Options};
use tempfile::TempDir;

pub struct EtcdServer {
    process: Child,
    client_port: u16,
    peer_port: u16,
    directory: TempDir,
    tls: Option<Tls>,
}

/// Files of an etcd that speaks TLS only, and whom it trusts; and as whom to ask whether it is ready.
#[derive(Clone)]
pub struct Tls {
    pub flags: Vec<String>,
    pub client: EtcdAddress,
}

impl EtcdServer {
    pub async fn start() -> Self {
        EtcdServer::start_with(None).await
    }

    pub async fn start_with(tls: Option<Tls>) -> Self {
        for _ in 0..5 {
            let (client_port, peer_port) = free_ports();
            let directory = tempfile::tempdir().expect("a directory for etcd");
            let process = spawn(&directory, client_port, peer_port, tls.as_ref());
            let mut server = EtcdServer { process, client_port, peer_port, directory, tls: tls.clone() };
            if server.is_ready().await {
                return server;
            }
        }
        panic!("etcd does not start");
    }

    /// Kills it, as a power cut would, and starts it again.
    #[allow(dead_code)]
    pub async fn restart(&mut self) {
        self.stop();
        // Somebody else may have its ports for a moment: they are nobody's as long as it is dead.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            self.process = spawn(&self.directory, self.client_port, self.peer_port, self.tls.as_ref());
            if self.is_ready().await {
                return;
            }
        }
        panic!("etcd does not start again");
    }

    pub fn endpoint(&self) -> String {
        url(self.client_port, self.tls.is_some())
    }

    /// With what it takes to be let in.
    pub fn address(&self) -> EtcdAddress {
        let client = self.tls.as_ref().map(|tls| tls.client.clone()).unwrap_or_default();
        EtcdAddress { endpoints: vec![self.endpoint()], ..client }
    }

    #[allow(dead_code)]
    pub async fn connect(&self, prefix: &str, options: Options) -> Arc<EtcdStore> {
        EtcdStore::connect(&self.address(), prefix, options).await.expect("connecting to etcd")
    }

    async fn is_ready(&mut self) -> bool {
        let give_up = Instant::now() + Duration::from_secs(60);
        while Instant::now() < give_up && self.process.try_wait().expect("asking after etcd").is_none() {
            if EtcdStore::connect(&self.address(), "/ready", Options::default()).await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn url(port: u16, is_encrypted: bool) -> String {
    format!("{}://127.0.0.1:{port}", if is_encrypted { "https" } else { "http" })
}

fn spawn(directory: &TempDir, client_port: u16, peer_port: u16, tls: Option<&Tls>) -> Child {
    let client = url(client_port, tls.is_some());
    let peer = format!("http://127.0.0.1:{peer_port}");
    Command::new("etcd")
        .arg("--data-dir")
        .arg(directory.path())
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(tls.iter().flat_map(|tls| &tls.flags))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this needs the program etcd: install Debian's package etcd-server")
}

fn free_ports() -> (u16, u16) {
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (client, peer) = (listen(), listen());
    let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    (port(&client), port(&peer))
}
