//! A namespace of its own for a case, with short words for what cases do all the time.

use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::watch_object;
use minik8s_kubelet::image::BUSYBOX;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::harness::cluster::{Cluster, TIMEOUT};

/// Ends at once when told to.
pub const IDLE: &str = "trap 'exit 0' TERM; sleep 1000 & wait";

/// To a server that is busy, or away.
const QUESTIONS: usize = 10;

pub struct Space {
    pub cluster: Arc<Cluster>,
    pub name: String,
    pub client: kube::Client,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// A container that runs a script.
pub fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "command": ["sh", "-c", script]})
}

/// A spec of one container that is not restarted.
pub fn once(script: &str) -> Value {
    json!({"restartPolicy": "Never", "containers": [shell("main", script)]})
}

pub fn idle() -> Value {
    json!({"containers": [shell("main", IDLE)]})
}

/// The state of the first container.
pub fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

pub fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

impl Space {
    pub async fn new(cluster: Arc<Cluster>, case: &str) -> Space {
        let client = cluster.client().await;
        let space = Space { cluster, name: case.replace('_', "-"), client };
        space
            .send(Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": space.name}}))
            .await
            .unwrap();
        // Pods are refused until their service account is there.
        let account = space.path("serviceaccounts", "default");
        space.eventually("a service account", async || space.get(&account).await.is_some()).await;
        space
    }

    pub fn path(&self, resource: &str, name: &str) -> String {
        let dash = if name.is_empty() { "" } else { "/" };
        format!("/api/v1/namespaces/{}/{resource}{dash}{name}", self.name)
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> kube::Result<Value> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        self.client
            .request(
                request
                    .body(if body.is_null() { Vec::new() } else { body.to_string().into_bytes() })
                    .unwrap(),
            )
            .await
    }

    /// None if it is not there. That a server is too busy for an answer is no word on that: it is asked again, for a while.
    pub async fn get(&self, path: &str) -> Option<Value> {
        for _ in 0..QUESTIONS {
            match self.send(Method::GET, path, Value::Null).await {
                Ok(found) => return Some(found),
                Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => return None,
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
        None
    }

    /// Makes an object of the namespace.
    pub async fn create(&self, resource: &str, object: Value) {
        self.send(Method::POST, &self.path(resource, ""), object).await.unwrap();
    }

    pub async fn change(&self, resource: &str, name: &str, patch: Value) {
        self.send(Method::PATCH, &self.path(resource, name), patch).await.unwrap();
    }

    pub async fn config_map(&self, name: &str, data: Value) {
        self.create("configmaps", json!({"metadata": {"name": name}, "data": data})).await;
    }

    pub async fn secret(&self, name: &str, data: Value) {
        self.create("secrets", json!({"metadata": {"name": name}, "stringData": data})).await;
    }

    /// Makes a pod; containers without an image run busybox.
    pub async fn pod(&self, name: &str, spec: Value) {
        self.labelled_pod(name, json!({}), spec).await;
    }

    pub async fn labelled_pod(&self, name: &str, labels: Value, mut spec: Value) {
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if container["image"].is_null() {
                    container["image"] = BUSYBOX.into();
                }
            }
        }
        self.create("pods", json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).await;
    }

    /// Waits for a pod to look as wanted. A deleted pod looks like null.
    pub async fn until(&self, name: &str, what: &str, seen: impl Fn(&Value) -> bool) -> Value {
        let api = kube::Api::<Pod>::namespaced(self.client.clone(), &self.name);
        let mut last = Value::Null;
        let wait = async {
            loop {
                let mut versions = std::pin::pin!(watch_object(api.clone(), name));
                while let Some(version) = versions.next().await {
                    let Ok(version) = version else { break };
                    last = serde_json::to_value(version).unwrap();
                    if seen(&last) {
                        return;
                    }
                }
                // The server may be away.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(TIMEOUT, wait).await.is_err() {
            let described = self.try_kubectl(&["describe", "pod", name]).await;
            panic!("{}/{name} never {what}: {:#}\n{}", self.name, last["status"], described.out);
        }
        last
    }

    pub async fn ready(&self, name: &str) -> Value {
        self.until(name, "ready", is_ready).await
    }

    pub async fn phase(&self, name: &str, phase: &str) -> Value {
        self.until(name, phase, |pod| pod["status"]["phase"] == phase).await
    }

    /// It runs, or did so: a short run may be over before anybody is told of it.
    pub async fn begun(&self, name: &str) -> Value {
        let has_begun =
            |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Running" | "Succeeded" | "Failed"));
        self.until(name, "begun", has_begun).await
    }

    pub async fn waiting(&self, name: &str, reason: &str) -> Value {
        self.until(name, reason, |pod| state(pod)["waiting"]["reason"] == reason).await
    }

    /// Runs a pod to its good end and returns what it wrote.
    pub async fn output(&self, name: &str, spec: Value) -> String {
        self.pod(name, spec).await;
        let pod = self
            .until(name, "over", |pod| {
                matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
            })
            .await;
        let log = self.kubectl(&["logs", name]).await;
        assert_eq!(pod["status"]["phase"], "Succeeded", "{log}\n{:#}", pod["status"]);
        log
    }

    pub async fn delete(&self, name: &str, grace: u32) {
        let options = json!({"gracePeriodSeconds": grace});
        self.send(Method::DELETE, &self.path("pods", name), options).await.unwrap();
    }

    pub async fn deleted(&self, name: &str) {
        self.until(name, "deleted", Value::is_null).await;
    }

    /// What a kubectl command prints. It must succeed.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let said = self.try_kubectl(arguments).await;
        assert_eq!(said.code, 0, "kubectl {arguments:?}: {said:?}");
        said.out
    }

    pub async fn try_kubectl(&self, arguments: &[&str]) -> Said {
        self.kubectl_with_input(arguments, b"").await
    }

    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut child = self.command("kubectl").args(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let feed = async {
            let _ = stdin.write_all(input).await;
            drop(stdin);
        };
        let ((), output) =
            tokio::time::timeout(TIMEOUT, async { tokio::join!(feed, child.wait_with_output()) })
                .await
                .unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end"));
        said(output.unwrap())
    }

    /// A command that finds this cluster and namespace by itself.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let kubeconfig = self.cluster.dir.join(format!("{}.kubeconfig", self.name));
        if !kubeconfig.exists() {
            let admin = std::fs::read_to_string(self.cluster.kubeconfig()).unwrap();
            let mut admin: Value = serde_saphyr::from_str(&admin).unwrap();
            admin["contexts"][0]["context"]["namespace"] = self.name.clone().into();
            std::fs::write(&kubeconfig, admin.to_string()).unwrap();
        }
        command.env("KUBECONFIG", kubeconfig).env("TERM", "dumb").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Waits for something else than a pod.
    pub async fn eventually(&self, what: &str, mut seen: impl AsyncFnMut() -> bool) {
        let wait = async {
            while !seen().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("{}: never {what}", self.name));
    }

    /// Waits for an event that says so.
    pub async fn event(&self, pod: &str, reason: &str, message: &str) {
        let path = self.path("events", "");
        self.eventually(&format!("an event {reason} {message:?} of {pod}"), async || {
            let events = self.get(&path).await.unwrap_or_default();
            events["items"].as_array().into_iter().flatten().any(|event| {
                event["involvedObject"]["name"] == pod
                    && event["reason"] == reason
                    && event["message"].as_str().is_some_and(|text| text.contains(message))
            })
        })
        .await;
    }
}

pub fn said(output: Output) -> Said {
    Said {
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}
