//! A control plane, and a cluster's objects without machines.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service, ServiceAccount};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{NODES, PROXIES, TIMEOUT};

pub const NAMESPACE: &str = "shop";
/// Requests at a time while the cluster is made.
const AT_ONCE: usize = 32;

/// Ended when dropped.
pub struct Cluster {
    pub dir: tempfile::TempDir,
    server: Child,
}

impl Cluster {
    pub fn start(binary: &Path) -> Result<Cluster> {
        // Short: addresses of sockets have room for 107 bytes.
        let dir = tempfile::tempdir_in("/tmp")?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let mut command = Command::new(binary);
        // Nobody renews what says that a node lives.
        command.args([
            "server",
            "--mesh",
            "--no-agent",
            "--node-grace",
            "3600",
            "--bind",
            "127.0.0.1",
            "--port",
            &port,
        ]);
        command.arg("--data-dir").arg(dir.path().join("data"));
        let log = std::fs::File::create(dir.path().join("log"))?;
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Ok(Cluster { dir, server: server.with_context(|| format!("{command:?}"))? })
    }

    /// As an administrator, or as a node.
    pub async fn client(&self, node: Option<&str>) -> Result<Client> {
        let begun = Instant::now();
        loop {
            match self.connected(node).await {
                Ok(client) => return Ok(client),
                Err(error) if begun.elapsed() > TIMEOUT => bail!("{error:#}\n{}", self.log()),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn connected(&self, node: Option<&str>) -> Result<Client> {
        let mut kubeconfig = Kubeconfig::read_from(self.dir.path().join("data/admin.kubeconfig"))?;
        let user =
            kubeconfig.auth_infos.first_mut().and_then(|user| user.auth_info.as_mut()).context("a user")?;
        if let Some(node) = node {
            user.impersonate = Some(format!("system:node:{node}"));
            user.impersonate_groups = Some(vec!["system:nodes".to_owned()]);
        }
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        client.apiserver_version().await?;
        Ok(client)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn pods_dir(&self, node: &str) -> PathBuf {
        self.dir.path().join(node)
    }

    /// Nodes, pods that run, a Service with two versions, and how its requests are split.
    pub async fn populate(&self, client: &Client) -> Result<()> {
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        create::<Namespace>(&Api::all(client.clone()), namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
        while accounts.get_opt("default").await?.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let nodes: Api<Node> = Api::all(client.clone());
        for number in 0..NODES {
            let name = node(number);
            create(&nodes, json!({"metadata": {"name": name}})).await?;
            let ready = json!([{"type": "Ready", "status": "True", "reason": "Bench", "message": "",
                "lastHeartbeatTime": jiff::Timestamp::now().to_string(),
                "lastTransitionTime": jiff::Timestamp::now().to_string()}]);
            let status = json!({"status": {"conditions": ready}});
            nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        futures::stream::iter(0..PROXIES)
            .map(|number| make_pod(&pods, number))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        let service = json!({"metadata": {"name": "reviews"}, "spec": {"selector": {"app": "reviews"},
            "ports": [{"name": "http", "port": 9080}]}});
        create::<Service>(&Api::namespaced(client.clone(), NAMESPACE), service).await?;
        for version in ["v1", "v2"] {
            let spec = json!({"selector": {"matchLabels": {"version": version}}});
            self.own(client, "Subset", version, spec).await?;
        }
        let subsets = json!([{"name": "v1", "weight": 50}, {"name": "v2", "weight": 50}]);
        let spec = json!({"serviceRef": "reviews", "port": 9080, "subsets": subsets});
        self.own(client, "VirtualService", "reviews", spec).await
    }

    async fn own(&self, client: &Client, kind: &str, name: &str, spec: Value) -> Result<()> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("minik8s.io", "v1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        create(
            &api,
            json!({"apiVersion": "minik8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}),
        )
        .await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

pub fn virtual_service() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("minik8s.io", "v1", "VirtualService"))
}

pub fn node(number: usize) -> String {
    format!("node-{number}")
}

/// Four answer, the others ask.
async fn make_pod(pods: &Api<Pod>, number: usize) -> Result<()> {
    let name = format!("pod-{number}");
    let labels = match number {
        0..4 => json!({"app": "reviews", "version": format!("v{}", 1 + number % 2)}),
        _ => json!({"app": "client"}),
    };
    let spec = json!({"nodeName": node(number % NODES), "containers": [{"name": "main", "image": "x"}]});
    create(pods, json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).await?;
    let running = |name: &str| {
        json!([{"name": name, "image": "x", "imageID": "", "ready": true, "started": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}])
    };
    let ip = format!("10.244.{}.{}", number / 250, 1 + number % 250);
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
        "initContainerStatuses": running("minik8s-proxy"), "containerStatuses": running("main")}});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}
