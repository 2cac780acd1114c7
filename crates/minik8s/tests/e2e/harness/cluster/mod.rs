//! A server with its node in temporary data dirs, taken apart at the end, also after a panic.

mod builder;
mod leftovers;
mod shared;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use minik8s_kubelet::image::Recipe;

use super::client;
use super::program::{BINARY, Program};
pub use builder::Builder;
pub use shared::{EXAMPLES, SHARED, run as on_the_shared_cluster, run_on};

pub const NODE: &str = "test-node";

/// Long enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(180);

pub struct Cluster {
    /// The server's data dir.
    pub dir: PathBuf,
    node_dir: PathBuf,
    server: Program,
    /// The node, where it is a program of its own.
    agent: Option<Program>,
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Writes an archive into the data dir and gives it to the node.
pub fn load_image(dir: &Path, file: &str, recipe: Recipe) {
    let path = dir.join(file);
    recipe.write(std::fs::File::create(&path).unwrap()).unwrap();
    load_archive(dir, &path);
}

pub fn load_archive(dir: &Path, archive: &Path) {
    let load =
        Command::new(BINARY).args(["image", "load", "--data-dir"]).arg(dir).arg(archive).output().unwrap();
    assert!(load.status.success(), "{load:?}");
}

impl Cluster {
    /// One process, server and node, unless more is said.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// kill -9 of the control plane, and of the agent with it where they are one.
    pub fn crash_server(&self) {
        self.server.crash();
    }

    pub async fn restart_server(&self) {
        self.server.start();
        self.ready().await;
    }

    /// The same with another program, as after an upgrade.
    pub async fn restart_server_as(&self, binary: &Path) {
        self.server.set_binary(binary);
        self.restart_server().await;
    }

    /// kill -9 of an agent that is a program of its own.
    pub fn crash_agent(&self) {
        self.agent.as_ref().unwrap().crash();
    }

    /// Starts it again, with these flags besides. It is not waited for.
    pub fn start_agent(&self, flags: &[&str]) {
        self.agent.as_ref().unwrap().start_with(flags);
    }

    pub async fn client(&self) -> kube::Client {
        client(&self.kubeconfig()).await.unwrap()
    }

    pub fn config(&self) -> minik8s_kubelet::Config {
        node_config(&self.node_dir)
    }

    pub fn node_dir(&self) -> &Path {
        &self.node_dir
    }

    /// Where the node's router listens.
    pub fn http_port(&self) -> &str {
        argument(self.agent.as_ref().unwrap_or(&self.server), "--http-port")
    }

    /// Where the API server listens, from this machine.
    pub fn server_address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, argument(&self.server, "--port").parse().unwrap()))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// Waits until the node is ready.
    pub async fn ready(&self) {
        let begun = Instant::now();
        while !self.is_ready().await {
            let programs = self.agent.iter().chain([&self.server]);
            if let Some(ended) = programs.into_iter().find(|p| p.has_ended() || begun.elapsed() > TIMEOUT) {
                panic!("the {} is not ready:\n{}", ended.role, ended.log());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let Some(client) = client(&self.kubeconfig()).await else { return false };
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client);
        let node = nodes.get_opt(NODE).await.ok().flatten().and_then(|node| node.status);
        let mut conditions = node.and_then(|status| status.conditions).into_iter().flatten();
        conditions.any(|c| c.type_ == "Ready" && c.status == "True")
    }

    fn wait_for_token(&self) {
        let begun = Instant::now();
        while !self.dir.join("join-token").exists() {
            assert!(begun.elapsed() < TIMEOUT && !self.server.has_ended(), "the server makes no token");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn argument<'a>(program: &'a Program, flag: &str) -> &'a str {
    program.arguments.iter().skip_while(|argument| *argument != flag).nth(1).unwrap()
}

fn node_config(dir: &Path) -> minik8s_kubelet::Config {
    let dir = minik8s_datadir::resolve(dir).unwrap();
    minik8s_kubelet::Config::new(NODE, &dir, IpAddr::V4(Ipv4Addr::LOCALHOST))
}
