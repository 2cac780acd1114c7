//! A cluster of the real binary: a server without an agent, and simulated nodes.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use http::{Method, Request};
use serde_json::{Value, json};

use crate::harness::program::BINARY;
use crate::harness::{Server, client};

/// Long enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(180);
/// How long something must not happen to count as not happening.
const WHILE: Duration = Duration::from_millis(1500);

pub struct Cluster {
    client: kube::Client,
    server: Server,
}

impl Cluster {
    /// Ready, with so many nodes that are ready too.
    pub async fn start(nodes: usize) -> Cluster {
        let server = if nodes == 0 { Server::start() } else { Server::start_with_nodes(nodes) };
        let client = client(&server.kubeconfig()).await.unwrap();
        let cluster = Cluster { client, server };
        cluster.wait("/api/v1/namespaces/default/serviceaccounts/default", |_| true).await;
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
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--kubeconfig").arg(self.server.kubeconfig()).output().unwrap()
    }
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
