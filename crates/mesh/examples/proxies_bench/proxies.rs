//! The mesh's part of each node's agent, and the proxies of its pods.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use minik8s_feature::{AgentFeature, AgentParts, NodeInfo, NodePlace};
use minik8s_informer::ApiAccess;
use minik8s_mesh::agent::{FOLDER, MeshAgent};
use minik8s_mesh::sidecar::{Config, Table};
use minik8s_meta::mesh::SOCKET;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::NODES;
use crate::cluster::{Cluster, NAMESPACE, node};

/// All of it ends when this is dropped.
pub struct Proxies {
    _agents: Vec<(MeshAgent, AgentParts)>,
    _stop: DropGuard,
}

pub async fn start(cluster: &Cluster, client: &Client) -> Result<Proxies> {
    let stop = CancellationToken::new();
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut sockets = Vec::new();
    for pod in pods.list(&ListParams::default()).await? {
        let (meta, spec) = (pod.metadata, pod.spec.context("a spec")?);
        let node = spec.node_name.context("a node")?;
        let dir = cluster.pods_dir(&node).join(meta.uid.context("a uid")?).join(FOLDER);
        std::fs::create_dir_all(&dir)?;
        // As an agent finds it that is started anew.
        std::fs::write(dir.join("pod"), format!("{NAMESPACE}/{}", meta.name.context("a name")?))?;
        sockets.push(dir.join(SOCKET));
    }
    let mut agents = Vec::new();
    for number in 0..NODES {
        agents.push(start_agent(cluster, &node(number), number, &stop).await?);
    }
    for socket in sockets {
        tokio::spawn(proxy(socket));
    }
    Ok(Proxies { _agents: agents, _stop: stop.drop_guard() })
}

async fn start_agent(
    cluster: &Cluster,
    name: &str,
    number: usize,
    stop: &CancellationToken,
) -> Result<(MeshAgent, AgentParts)> {
    let data_dir = cluster.dir.path().join(format!("{name}-data"));
    std::fs::create_dir_all(&data_dir)?;
    let client = cluster.client(Some(name)).await?;
    let access = ApiAccess::of_node(client, name, stop.clone(), &data_dir, &[]);
    let address = Ipv4Addr::LOCALHOST;
    let info = NodeInfo {
        name: name.to_owned(),
        address: address.into(),
        node_ips: vec![address.into()],
        place: NodePlace { data_dir, instance: format!("bench-{number}") },
        pods_dir: cluster.pods_dir(name),
        bridge: "none".to_owned(),
        own_ports: BTreeSet::new(),
        cluster_cidr: "10.244.0.0/16".parse()?,
        dns_addresses: vec![address.into()],
        domain: "cluster.local".to_owned(),
    };
    let mut parts = AgentParts::new(access, info, stop.clone());
    let agent = MeshAgent::default();
    agent.run(&mut parts).await;
    Ok((agent, parts))
}

/// Makes the table of whatever it is told, and says so.
async fn proxy(socket: PathBuf) -> Result<()> {
    let stream = connect(&socket).await;
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut table = Table::default();
    while let Some(line) = lines.next_line().await? {
        let config: Config = serde_json::from_str(&line)?;
        table = Table::new(&config.routes, &config.services, None, &config.own.namespace, &table);
        writer.write_all(format!("{{\"applied\":{}}}\n", config.version).as_bytes()).await?;
    }
    Ok(())
}

async fn connect(socket: &Path) -> UnixStream {
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
