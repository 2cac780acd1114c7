//! This machine as a node, be it beside the control plane or alone; and taking it apart.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use ipnet::Ipv4Net;
use minik8s_auth::pki::LiveIdentity;
use minik8s_kubelet::{Config, Serving};
use minik8s_network::pod_network::{Backend, Kernel, pod_mtu};
use minik8s_network::{Known, Metrics};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::cluster_settings::ClusterSettings;
use crate::housekeeping::HousekeepingFlags;
use crate::node_config::NodeConfig;
use crate::remembered::Remembered;
use crate::router::RouterFlags;
use crate::{host, leftovers, router};

/// As whom the API server calls nodes.
const API_SERVER: &str = "kube-apiserver-kubelet-client";

/// The file that has Services and their endpoints for the next start.
const KNOWN: &str = "known-services";

/// What may be said about the machine.
#[derive(Debug, Args)]
pub struct MachineFlags {
    /// Name of this machine's node; the host name by default
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// Address under which other nodes reach this one; that of the way to the server by default
    #[arg(long, value_name = "ADDR")]
    pub node_ip: Option<IpAddr>,
    /// Port on which the node answers the API server: logs, exec, figures
    #[arg(long, value_name = "N", default_value_t = 10250)]
    pub node_port: u16,
    /// A Node object (YAML) with the machine's name, labels, taints and capacity
    #[arg(long, value_name = "FILE")]
    pub node_config: Option<PathBuf>,
    /// Socket of a container runtime to use instead of a containerd of our own
    #[arg(long, value_name = "SOCKET", value_parser = socket_path)]
    pub cri_endpoint: Option<PathBuf>,
    /// How pods reach those of other nodes: auto is plain routes where nodes share a link, VXLAN elsewhere
    #[arg(long, value_name = "auto|vxlan|host-gw", default_value = "auto")]
    pub network_backend: Backend,
    #[command(flatten)]
    pub router: RouterFlags,
    #[command(flatten)]
    pub housekeeping: HousekeepingFlags,
}

impl MachineFlags {
    pub fn description(&self) -> anyhow::Result<NodeConfig> {
        let read = self.node_config.as_deref().map(NodeConfig::read).transpose()?;
        Ok(read.unwrap_or_default())
    }
}

/// A path, also in the form `unix:///run/containerd/containerd.sock`.
fn socket_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    if path.is_absolute() { Ok(path) } else { Err("give the absolute path of a unix socket".to_owned()) }
}

/// All that is known about a node when it starts.
pub struct Node {
    pub name: String,
    pub data_dir: PathBuf,
    pub address: IpAddr,
    pub port: u16,
    /// Of the API servers.
    pub api_port: Option<u16>,
    pub cri_endpoint: Option<PathBuf>,
    pub backend: Backend,
    pub router: RouterFlags,
    pub housekeeping: HousekeepingFlags,
    pub description: NodeConfig,
    pub settings: ClusterSettings,
    pub serving: Serving,
}

impl Node {
    /// Runs pods and their network; returns only if this machine cannot do so.
    pub async fn run(
        self,
        node_client: kube::Client,
        network_client: kube::Client,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut config = self.kubelet();
        self.housekeeping.apply(&mut config)?;
        config.validate()?;
        leftovers::note(&config.data_dir, &config.instance());
        let mut network = self.network(&config, stop);
        let router_client = node_client.clone();
        let router = router::start(router_client, &self.router, &network, self.address, &self.data_dir);
        network.hosts = Some(router.names());
        config.figures.add(move || router.metrics());
        let figures = network.metrics.clone();
        config.figures.add(move || figures.page());
        let (drains, ending) = mpsc::channel(64);
        config.drains = Some(drains);
        let uplink = Kernel::default().uplink(network.node_ip).await;
        config.pod_mtu = uplink.ok().map(|uplink| pod_mtu(uplink.mtu, self.backend));
        tokio::spawn(minik8s_network::run(network_client, network, ending));
        minik8s_kubelet::run(config, node_client).await.context("the node cannot run")
    }

    fn kubelet(&self) -> Config {
        let mut config = Config::new(&self.name, &self.data_dir, self.address);
        config.cluster_domain = self.settings.domain.clone();
        config.cluster_dns = vec![self.settings.dns_address.into()];
        config.heartbeat = self.settings.heartbeat();
        config.port = self.port;
        config.cri_endpoint = self.cri_endpoint.clone();
        config.labels = self.description.labels.clone();
        config.taints = self.description.taints.clone();
        config.capacity = self.description.capacity.clone();
        config.serving = Some(self.serving.clone());
        config.own_ports = self.own_ports();
        config.somebody_listens = Some(minik8s_network::somebody_listens);
        config
    }

    /// Without them nobody could reach the node or the cluster.
    fn own_ports(&self) -> BTreeSet<u16> {
        self.api_port.into_iter().chain([self.port]).collect()
    }

    fn network(&self, node: &Config, stop: CancellationToken) -> minik8s_network::Config {
        // Pods have a loopback address of their own, so the node's would not lead them to the node.
        let reachable = |address: &IpAddr| matches!(address, IpAddr::V4(ip) if !ip.is_loopback());
        let node_ip = match Some(self.address).filter(reachable).unwrap_or_else(host::address) {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
        };
        let remembered = Remembered::new(&self.data_dir, KNOWN);
        let known = Arc::new(remembered.read(Known::from_json).unwrap_or_default());
        let (memory, newest) = watch::channel(Arc::default());
        remembered.keep(newest, Known::to_json);
        let dns =
            minik8s_network::Dns { address: self.settings.dns_address, domain: self.settings.domain.clone() };
        minik8s_network::Config {
            node_name: self.name.clone(),
            node_ip,
            cluster_cidr: self.settings.cluster_cidr,
            backend: self.backend,
            dns: Some(dns),
            own_ports: self.own_ports(),
            hosts: None,
            known,
            memory,
            metrics: Arc::new(Metrics::new(&self.settings.domain)),
            instance: node.instance(),
            stop,
        }
    }
}

/// Refuses address ranges that this machine's own networks use, after clearing up what no longer has an owner.
pub async fn check_ranges(
    data_dir: &Path,
    cluster: Ipv4Net,
    services: Option<Ipv4Net>,
) -> anyhow::Result<()> {
    let data_dir = std::path::absolute(data_dir).context("--data-dir")?;
    let instance = Config::new("any", &data_dir, host::address()).instance();
    let bridge = minik8s_kubelet::bridge_name(&instance);
    leftovers::remove().await;
    Ok(minik8s_network::pod_network::check_ranges(cluster, services, &instance, &bridge).await?)
}

/// The port of a node shows this identity and lets the API server in, nobody else.
pub fn serving(identity: Arc<LiveIdentity>, ca_pem: String) -> Serving {
    Serving { identity, client_ca: ca_pem, client_name: API_SERVER.to_owned() }
}

/// Ends all pods of a stopped node and removes what they left on this machine.
pub async fn tear_down(data_dir: &Path) -> anyhow::Result<()> {
    let data_dir = std::path::absolute(data_dir).context("--data-dir")?;
    let config = Config::new("gone", &data_dir, host::address());
    minik8s_kubelet::tear_down(&config).await;
    minik8s_network::tear_down(&config.instance()).await;
    router::tear_down(&data_dir, &config.instance());
    Remembered::new(&data_dir, KNOWN).forget();
    leftovers::forget(&config.instance());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets() {
        let check =
            |text: &str, want: Option<&str>| assert_eq!(socket_path(text).ok(), want.map(PathBuf::from));
        check("/run/crio.sock", Some("/run/crio.sock"));
        check("unix:///run/crio.sock", Some("/run/crio.sock"));
        check("crio.sock", None);
        check("tcp://10.0.0.1:1", None);
    }
}
