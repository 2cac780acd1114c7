//! This machine as a node, be it beside the control plane or alone; and taking it apart.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use minik8s_auth::pki::LiveIdentity;
use minik8s_feature::{AgentParts, NodeInfo, NodePlace, PodHooks};
use minik8s_informer::{ApiAccess, Checkpoint};
use minik8s_kubelet::{Config, Serving};
use minik8s_meta::{Cidrs, IpFamily};
use minik8s_network::pod_network::Backend;
use tokio_util::sync::CancellationToken;

use crate::cluster_settings::ClusterSettings;
use crate::export::{ExportFlags, Exports};
use crate::features::AgentFeatures;
use crate::housekeeping::HousekeepingFlags;
use crate::node_config::NodeConfig;
use crate::router::RouterFlags;
use crate::{host, leftovers};

/// As whom the API server calls nodes.
const API_SERVER: &str = minik8s_auth::pki::KUBELET_CLIENT;

/// What may be said about the machine.
#[derive(Debug, Args)]
pub struct MachineFlags {
    /// Name of this machine's node; the host name by default
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// Address under which other nodes reach this one, or one of each family; that of the way to the server by default
    #[arg(long, value_name = "ADDR[,ADDR]", value_delimiter = ',')]
    pub node_ip: Vec<IpAddr>,
    /// Port on which the node answers the API server: logs, exec, metrics
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
    #[command(flatten)]
    pub export: Box<ExportFlags>,
}

impl MachineFlags {
    pub fn description(&self) -> anyhow::Result<NodeConfig> {
        let read = self.node_config.as_deref().map(NodeConfig::read).transpose()?;
        Ok(read.unwrap_or_default())
    }

    /// The node's addresses, the primary one first: one of each family that pods have, as far as it was given or `found`
    /// knows it; never none.
    pub fn addresses(
        &self,
        pods: &Cidrs,
        found: impl Fn(IpFamily) -> Option<IpAddr>,
    ) -> anyhow::Result<Vec<IpAddr>> {
        node_addresses(&self.node_ip, pods, found)
    }
}

fn node_addresses(
    given: &[IpAddr],
    pods: &Cidrs,
    found: impl Fn(IpFamily) -> Option<IpAddr>,
) -> anyhow::Result<Vec<IpAddr>> {
    if given.len() > 2 || given.len() == 2 && IpFamily::of(given[0]) == IpFamily::of(given[1]) {
        bail!("--node-ip takes one address, or one of IPv4 and one of IPv6");
    }
    let of_family = |family: IpFamily| {
        let asked = given.iter().copied().find(|address| IpFamily::of(*address) == family);
        asked.or_else(|| found(family))
    };
    let known: Vec<IpAddr> = pods.families().filter_map(of_family).collect();
    let otherwise = || given.first().copied().or_else(|| pods.families().next().map(host::loopback));
    Ok(if known.is_empty() { otherwise().into_iter().collect() } else { known })
}

/// Where the node's router listens, for those that call it.
pub const HTTP_PORT_ANNOTATION: &str = "minik8s.io/http-port";

/// A path, also in the form `unix:///run/containerd/containerd.sock`.
fn socket_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    if path.is_absolute() { Ok(path) } else { Err("give the absolute path of a unix socket".to_owned()) }
}

/// All that is known about a node when it starts.
pub struct Node {
    pub name: String,
    pub data_dir: PathBuf,
    /// One of each family that pods have, the primary one first.
    pub addresses: Vec<IpAddr>,
    pub port: u16,
    /// Of the API servers.
    pub api_port: Option<u16>,
    pub cri_endpoint: Option<PathBuf>,
    pub backend: Backend,
    pub router: RouterFlags,
    pub housekeeping: HousekeepingFlags,
    pub exports: Exports,
    pub description: NodeConfig,
    pub settings: ClusterSettings,
    pub serving: Serving,
}

impl Node {
    /// Runs pods and what else a node does; returns only if this machine cannot do so.
    pub async fn run(
        self,
        access: ApiAccess,
        features: AgentFeatures,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut config = self.kubelet();
        self.housekeeping.apply(&mut config)?;
        config.validate()?;
        leftovers::note(&config.data_dir, &config.instance());
        let mut parts = AgentParts::new(access.clone(), self.info(&config), stop);
        parts.tracer = self.exports.tracer.clone();
        config.log_export = self.exports.logs.clone();
        features.run(&mut parts).await;
        let features = Arc::new(features);
        config.pages.add({
            let features = features.clone();
            move |path| features.read(path)
        });
        config.metrics.add(move || features.metrics());
        let exports = self.exports.clone();
        config.metrics.add(move || exports.metrics());
        let PodHooks { drains, port_guards, mesh, mesh_taps, pod_mtu, function_runtimes } = parts.hooks;
        config = Config { drains, port_guards, mesh, mesh_taps, pod_mtu, function_runtimes, ..config };
        tokio::select! {
            ended = minik8s_kubelet::run(config, access) => ended.context("the node cannot run"),
            ended = parts.tasks.ended() => Err(ended.into()),
        }
    }

    /// Those of its features that are not switched off.
    pub fn features(&self, disabled: &[String]) -> AgentFeatures {
        AgentFeatures::new(self.backend, &self.settings.domain, self.router.clone(), disabled)
    }

    /// How all parts of the node reach the cluster.
    pub fn access(
        &self,
        client: kube::Client,
        features: &AgentFeatures,
        stop: &CancellationToken,
    ) -> ApiAccess {
        ApiAccess::of_node(client, &self.name, stop.clone(), &self.data_dir, &features.checkpointed())
    }

    /// The primary one.
    fn address(&self) -> IpAddr {
        self.addresses.first().copied().unwrap_or(host::loopback(IpFamily::V4))
    }

    fn kubelet(&self) -> Config {
        let mut config = Config::new(&self.name, &self.data_dir, self.address());
        config.cluster_domain = self.settings.domain.clone();
        config.second_node_ip = self.addresses.get(1).copied();
        config.primary_family = IpFamily::of(self.settings.cluster_cidr.primary().addr());
        // A resolver answers for both families, whichever it is asked in.
        config.cluster_dns = self.settings.dns_addresses.first().copied().into_iter().collect();
        config.heartbeat = self.settings.heartbeat();
        config.port = self.port;
        config.cri_endpoint = self.cri_endpoint.clone();
        config.labels = self.description.labels.clone();
        let port = (HTTP_PORT_ANNOTATION.to_owned(), self.router.http_port.to_string());
        config.annotations = [port].into();
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

    fn info(&self, config: &Config) -> NodeInfo {
        // Pods have a loopback address of their own, so the node's would not lead them to the node.
        let of_family = |family: IpFamily| {
            let reachable = |address: &&IpAddr| IpFamily::of(**address) == family && !address.is_loopback();
            self.addresses.iter().find(reachable).copied().or_else(|| host::address_of(family))
        };
        NodeInfo {
            name: self.name.clone(),
            address: self.address(),
            node_ips: self.settings.cluster_cidr.families().filter_map(of_family).collect(),
            place: NodePlace { data_dir: self.data_dir.clone(), instance: config.instance() },
            pods_dir: config.pods_dir(),
            bridge: minik8s_kubelet::bridge_name(&config.instance()),
            own_ports: self.own_ports(),
            cluster_cidr: self.settings.cluster_cidr,
            dns_addresses: self.settings.dns_addresses.clone(),
            domain: self.settings.domain.clone(),
        }
    }
}

/// Refuses address ranges that this machine's own networks use, after clearing up what no longer has an owner. The data
/// dir is a resolved path.
pub async fn check_ranges(data_dir: &Path, cluster: &Cidrs, services: Option<&Cidrs>) -> anyhow::Result<()> {
    let instance = Config::new("any", data_dir, host::address()).instance();
    let bridge = minik8s_kubelet::bridge_name(&instance);
    leftovers::remove().await;
    let services = services.copied();
    Ok(minik8s_network::pod_network::check_ranges(*cluster, services, &instance, &bridge).await?)
}

/// The port of a node shows this identity and lets the API server in, nobody else.
pub fn serving(identity: Arc<LiveIdentity>, ca_pem: String) -> Serving {
    Serving { identity, client_ca: ca_pem, client_name: API_SERVER.to_owned() }
}

/// Ends all pods of a stopped node and removes what they left on this machine.
pub async fn tear_down(data_dir: &Path) -> anyhow::Result<()> {
    let data_dir = minik8s_datadir::resolve(data_dir).context("--data-dir")?;
    let config = Config::new("gone", &data_dir, host::address());
    let ended = minik8s_kubelet::tear_down(&config).await;
    AgentFeatures::to_teardown()
        .teardown(&NodePlace { data_dir: data_dir.clone(), instance: config.instance() })
        .await;
    if let Err(error) = minik8s_datadir::remove_tree(&data_dir, Checkpoint::FOLDER) {
        tracing::warn!(%error, "what the node knew of the cluster stays");
    }
    ended.with_context(|| format!("not all of the node in {} is gone: try again", data_dir.display()))?;
    leftovers::forget(&config.instance());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_addresses_follow_the_families_of_pods() {
        let check = |given: &str, pods: &str, expected: Option<&str>| {
            let given: Vec<IpAddr> = given.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
            let found = |family: IpFamily| (family == IpFamily::V4).then(|| "192.0.2.9".parse().unwrap());
            let addresses = node_addresses(&given, &pods.parse().unwrap(), found);
            let shown =
                addresses.ok().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            assert_eq!(shown.as_deref(), expected, "{given:?} {pods}");
        };
        let (v4, v6, both) = ("10.244.0.0/16", "fd00::/56", "fd00::/56,10.244.0.0/16");
        check("", v4, Some("192.0.2.9"));
        check("", both, Some("192.0.2.9"));
        check("", v6, Some("::1"));
        check("10.0.0.1", v4, Some("10.0.0.1"));
        check("10.0.0.1 fd01::1", both, Some("fd01::1 10.0.0.1"));
        check("fd01::1", both, Some("fd01::1 192.0.2.9"));
        // Others may reach the node by a family that its pods do not have.
        check("10.0.0.1", v6, Some("10.0.0.1"));
        check("10.0.0.1 10.0.0.2", v4, None);
        check("10.0.0.1 fd01::1 fd01::2", both, None);
    }

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
