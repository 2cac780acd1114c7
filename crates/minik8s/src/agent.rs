//! The node beside the control plane, and taking it apart.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::Context;
use ipnet::Ipv4Net;
use jiff::{SignedDuration, Timestamp};
use minik8s_auth::pki::{AltNames, Pki, Subject};
use minik8s_kubelet::{Config, Serving};
use tokio_util::sync::CancellationToken;

use crate::flags::ServerFlags;
use crate::{host, router};

/// Addresses per node: a /24 out of the cluster's range.
const NODE_PREFIX: u8 = 24;

/// Issued anew at every start.
const CERTIFICATE_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The node's configuration out of the server's flags.
pub fn config(flags: &ServerFlags, node_name: &str, pki: &Pki) -> anyhow::Result<Config> {
    let address = if flags.bind.is_unspecified() { host::address() } else { flags.bind };
    let data_dir = std::path::absolute(&flags.data_dir).context("--data-dir")?;
    let mut config = Config::new(node_name, &data_dir, address);
    config.pod_cidr = Some(first_node_range(flags.cluster_cidr));
    config.cluster_domain = flags.cluster_domain.clone();
    config.cluster_dns = vec![dns_address(flags.service_cidr).into()];
    config.port = flags.node_port;
    config.serving = Some(serving(pki, node_name, address)?);
    config.validate()?;
    Ok(config)
}

/// The network of that node.
pub fn network(flags: &ServerFlags, node: &Config, stop: CancellationToken) -> minik8s_network::Config {
    // Pods have a loopback address of their own, so the node's would not lead them to the node.
    let reachable = |address: &IpAddr| matches!(address, IpAddr::V4(ip) if !ip.is_loopback());
    let node_ip = match Some(node.node_ip).filter(reachable).unwrap_or_else(host::address) {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => first_node_range(flags.cluster_cidr).hosts().next().unwrap_or(Ipv4Addr::LOCALHOST),
    };
    let address = dns_address(flags.service_cidr);
    minik8s_network::Config {
        node_name: node.node_name.clone(),
        node_ip,
        cluster_cidr: flags.cluster_cidr,
        backend: minik8s_network::pod_network::Backend::default(),
        dns: Some(minik8s_network::Dns { address, domain: flags.cluster_domain.clone() }),
        hosts: None,
        instance: node.instance(),
        stop,
    }
}

/// By custom the tenth address of Services.
fn dns_address(services: Ipv4Net) -> Ipv4Addr {
    services.hosts().nth(9).unwrap_or(services.addr())
}

/// The node's port shows a certificate of the cluster's authority and lets the API server in, nobody else.
fn serving(pki: &Pki, node_name: &str, address: IpAddr) -> anyhow::Result<Serving> {
    let subject = Subject::new(&format!("system:node:{node_name}"), &["system:nodes"]);
    let names = AltNames { dns: [node_name.to_owned()].into(), ips: [address].into() };
    let (certificate, key) = pki.issue_server(subject, names, CERTIFICATE_LIFETIME, Timestamp::now())?;
    let client_name = "kube-apiserver-kubelet-client".to_owned();
    Ok(Serving { certificate, key, client_ca: pki.ca_pem(), client_name })
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
    minik8s_network::tear_down(&config.instance()).await;
    router::tear_down(&data_dir, &config.instance());
    Ok(())
}
