//! A cluster of the real binary: a server without an agent, and simulated nodes.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);
/// How long something must not happen to count as not happening.
pub const WHILE: Duration = Duration::from_millis(1500);

pub struct Cluster {
    client: kube::Client,
    kubeconfig: PathBuf,
    processes: Vec<Child>,
    _directory: TempDir,
}

impl Cluster {
    /// Ready, with so many nodes that are ready too.
    pub async fn start(nodes: usize) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("admin.kubeconfig");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut server = minik8s();
        server.args(["server", "--no-agent", "--bind", "127.0.0.1", "--port", &port, "--data-dir"]);
        let processes = vec![server.arg(directory.path()).spawn().unwrap()];
        let begun = Instant::now();
        while !kubeconfig.exists() {
            assert!(begun.elapsed() < TIMEOUT, "the server does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let read = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let mut cluster = Cluster { client, kubeconfig, processes, _directory: directory };
        cluster.wait("/api/v1/namespaces/default/serviceaccounts/default", |_| true).await;
        if nodes == 0 {
            return cluster;
        }
        let mut simulation = minik8s();
        simulation.args(["simulate", "--nodes", &nodes.to_string(), "--kubeconfig"]);
        cluster.processes.push(simulation.arg(&cluster.kubeconfig).spawn().unwrap());
        for i in 0..nodes {
            let untainted = |node: &Value| {
                is(node, "Ready") && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
            };
            cluster.wait(&format!("/api/v1/nodes/sim-{i:04}"), untainted).await;
        }
        cluster
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
        self.client.request(request.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        self.send(Method::GET, path, &Value::Null).await
    }

    pub async fn create(&self, collection: &str, object: Value) -> Value {
        self.send(Method::POST, collection, &object).await.unwrap()
    }

    pub async fn patch(&self, path: &str, patch: Value) -> Result<Value, kube::Error> {
        self.send(Method::PATCH, path, &patch).await
    }

    pub async fn delete(&self, path: &str) -> Result<Value, kube::Error> {
        self.send(Method::DELETE, path, &Value::Null).await
    }

    /// The object once it is as wanted.
    pub async fn wait(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.get(path).await;
            if let Some(object) = found.as_ref().ok().filter(|object| wanted(object)) {
                return object.clone();
            }
            assert!(begun.elapsed() < TIMEOUT, "{path} does not become as wanted: {found:?}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub async fn wait_gone(&self, path: &str) {
        let begun = Instant::now();
        while self.get(path).await.is_ok() {
            assert!(begun.elapsed() < TIMEOUT, "{path} is still there");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// A pod of namespace `default`.
    pub async fn create_pod(&self, name: &str, spec: Value) {
        let mut pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.create("/api/v1/namespaces/default/pods", pod).await;
    }

    /// The node that the pod runs on.
    pub async fn node_of(&self, pod: &str) -> String {
        let running = |pod: &Value| pod["status"]["phase"] == "Running";
        let pod = self.wait(&pod_path(pod), running).await;
        pod["spec"]["nodeName"].as_str().unwrap().to_owned()
    }

    /// The reason why the pod waits, once it is told, and that it goes on waiting.
    pub async fn refusal(&self, name: &str) -> String {
        let told = |pod: &Value| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
        let pod = self.wait(&pod_path(name), told).await;
        tokio::time::sleep(WHILE).await;
        let later = self.get(&pod_path(name)).await.unwrap();
        assert!(later["spec"]["nodeName"].is_null(), "{name} was bound after all");
        condition(&pod, "PodScheduled")["message"].as_str().unwrap().to_owned()
    }

    /// Runs a command of the binary against this cluster.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minik8s"));
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig).output().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn minik8s() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_minik8s"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}

pub fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

pub fn is(object: &Value, kind: &str) -> bool {
    condition(object, kind)["status"] == "True"
}
