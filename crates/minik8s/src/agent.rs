//! The node beside the control plane, and taking it apart.

use std::path::Path;

use anyhow::Context;
use ipnet::Ipv4Net;
use minik8s_kubelet::Config;

use crate::flags::ServerFlags;
use crate::host;

/// Addresses per node: a /24 out of the cluster's range.
const NODE_PREFIX: u8 = 24;

/// The node's configuration out of the server's flags.
pub fn config(flags: &ServerFlags, node_name: &str) -> anyhow::Result<Config> {
    let address = if flags.bind.is_unspecified() { host::address() } else { flags.bind };
    let data_dir = std::path::absolute(&flags.data_dir).context("--data-dir")?;
    let mut config = Config::new(node_name, &data_dir, address);
    config.pod_cidr = Some(first_node_range(flags.cluster_cidr));
    config.cluster_domain = flags.cluster_domain.clone();
    config.validate()?;
    Ok(config)
}

/// The range of the first node.
fn first_node_range(cluster: Ipv4Net) -> Ipv4Net {
    let prefix = cluster.prefix_len().max(NODE_PREFIX);
    Ipv4Net::new(cluster.network(), prefix).unwrap_or(cluster)
}

/// Ends all pods of a stopped node and removes what they left on this machine.
pub async fn tear_down(data_dir: &Path) -> anyhow::Result<()> {
    let data_dir = std::path::absolute(data_dir).context("--data-dir")?;
    let config = Config::new("gone", &data_dir, host::address());
    minik8s_kubelet::tear_down(&config).await;
    Ok(())
}
