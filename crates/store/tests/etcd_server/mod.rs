//! A real etcd of one's own: on free loopback ports, with a directory that goes away with it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_store::{EtcdStore, Options};
use tempfile::TempDir;

pub struct EtcdServer {
    process: Child,
    client_port: u16,
    peer_port: u16,
    directory: TempDir,
}

impl EtcdServer {
    pub async fn start() -> Self {
        for _ in 0..5 {
            let (client_port, peer_port) = free_ports();
            let directory = tempfile::tempdir().expect("a directory for etcd");
            let process = spawn(&directory, client_port, peer_port);
            let mut server = EtcdServer { process, client_port, peer_port, directory };
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
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.process = spawn(&self.directory, self.client_port, self.peer_port);
        assert!(self.is_ready().await, "etcd does not start again");
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    #[allow(dead_code)]
    pub async fn connect(&self, prefix: &str, options: Options) -> Arc<EtcdStore> {
        EtcdStore::connect(&[self.endpoint()], prefix, options).await.expect("connecting to etcd")
    }

    async fn is_ready(&mut self) -> bool {
        let give_up = Instant::now() + Duration::from_secs(30);
        while Instant::now() < give_up && self.process.try_wait().expect("asking after etcd").is_none() {
            if EtcdStore::connect(&[self.endpoint()], "/ready", Options::default()).await.is_ok() {
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

fn spawn(directory: &TempDir, client_port: u16, peer_port: u16) -> Child {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    Command::new("etcd")
        .arg("--data-dir")
        .arg(directory.path())
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
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
