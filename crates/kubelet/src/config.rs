//! What the agent must be told. Everything that can be found out on the host is found out instead.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Taint;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::figures::Figures;
use crate::housekeeping::HousekeepingSettings;
use crate::server::Serving;

/// A pod (by its UID) that is about to end, and whom to tell that no new connections come to it any more.
pub type DrainRequest = (String, oneshot::Sender<()>);

/// A unix socket's address has room for 107 bytes; containerd appends `.ttrpc` to ours.
const LONGEST_SOCKET_PATH: usize = 100;

#[derive(Debug, Clone)]
pub struct Config {
    pub node_name: String,
    /// Owned by this agent alone: two agents on one host have two data dirs.
    pub data_dir: PathBuf,
    /// The address under which other nodes reach this one.
    pub node_ip: IpAddr,
    /// Addresses of this node's pods. `None`: those that the cluster gives to the Node object.
    pub pod_cidr: Option<Ipv4Net>,
    /// Name servers that pods with `dnsPolicy: ClusterFirst` use.
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// A CRI socket to use instead of a containerd of our own.
    pub cri_endpoint: Option<PathBuf>,
    /// Port of the agent's HTTPS server.
    pub port: u16,
    /// Credentials of that server; without them there is none.
    pub serving: Option<Serving>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Capacity that replaces what was measured (`cpu`, `memory`, `pods`, extended resources).
    pub capacity: BTreeMap<String, String>,
    pub max_pods: u32,
    /// The largest packet of pods. `None`: as large as the bridge takes.
    pub pod_mtu: Option<u32>,
    /// Where the network is told which pods end. `None`: nobody has to be told.
    pub drains: Option<mpsc::Sender<DrainRequest>>,
    /// TCP ports of the node that no pod may take: without them nobody could reach it.
    pub own_ports: BTreeSet<u16>,
    /// Whether a program of the machine listens on a port of that protocol (`TCP`, `UDP`). `None`: nobody knows.
    pub somebody_listens: Option<fn(&str, u16) -> bool>,
    /// Of the agent's other parts, to be shown at `/metrics`.
    pub figures: Figures,
    /// How often the node says that it lives.
    pub heartbeat: Duration,
    /// Processes that a pod may have.
    pub pod_pids: Option<u32>,
    pub housekeeping: HousekeepingSettings,
    /// A call of the container runtime that takes longer than this hangs.
    pub runtime_timeout: Duration,
    /// The longest pause before a container that keeps ending is started again. Short where people develop.
    pub longest_restart_delay: Duration,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error("data dir {0:?} must be an absolute path of plain characters (no quotes, backslashes, spaces)")]
    DataDir(PathBuf),
    #[error("data dir {0:?} is too long: its sockets need paths of at most {LONGEST_SOCKET_PATH} bytes")]
    DataDirTooLong(PathBuf),
    #[error("node name {0:?} must be a DNS name: lower case letters, digits, '-' and '.'")]
    NodeName(String),
    #[error("pod CIDR {0} has no room for pods: it needs a prefix of at most 29 bits")]
    PodCidr(Ipv4Net),
}

impl Config {
    pub fn new(node_name: &str, data_dir: &Path, node_ip: IpAddr) -> Self {
        Config {
            node_name: node_name.to_owned(),
            data_dir: data_dir.to_owned(),
            node_ip,
            pod_cidr: None,
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            cri_endpoint: None,
            port: 10250,
            serving: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            capacity: BTreeMap::new(),
            max_pods: 110,
            pod_mtu: None,
            drains: None,
            own_ports: BTreeSet::new(),
            somebody_listens: None,
            figures: Figures::default(),
            heartbeat: Duration::from_secs(10),
            pod_pids: None,
            housekeeping: HousekeepingSettings::default(),
            runtime_timeout: Duration::from_secs(120),
            longest_restart_delay: Duration::from_secs(300),
        }
    }

    pub fn validate(&self) -> Result<(), ConfigError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@:".contains(c);
        match self.data_dir.to_str() {
            Some(path) if path.starts_with('/') && path.chars().all(plain) => {}
            _ => return Err(ConfigError::DataDir(self.data_dir.clone())),
        }
        if self.containerd_socket().as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(ConfigError::DataDirTooLong(self.data_dir.clone()));
        }
        let dns = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let name = &self.node_name;
        if name.is_empty()
            || name.len() > 253
            || !name.chars().all(dns)
            || name.starts_with(['-', '.'])
            || name.ends_with(['-', '.'])
        {
            return Err(ConfigError::NodeName(name.clone()));
        }
        match self.pod_cidr {
            Some(cidr) if cidr.prefix_len() > 29 => Err(ConfigError::PodCidr(cidr)),
            _ => Ok(()),
        }
    }

    /// Tells this agent's host-wide names (bridge, cgroups) from those of other agents on the host.
    pub fn instance(&self) -> String {
        let digest = Sha256::digest(self.data_dir.as_os_str().as_encoded_bytes());
        digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The cgroup that holds all pods of this agent.
    pub fn cgroup_root(&self) -> String {
        format!("/minik8s-{}", self.instance())
    }

    pub fn containerd_dir(&self) -> PathBuf {
        self.data_dir.join("containerd")
    }

    pub fn containerd_socket(&self) -> PathBuf {
        self.containerd_dir().join("containerd.sock")
    }

    /// The CRI socket in use.
    pub fn cri_socket(&self) -> PathBuf {
        self.cri_endpoint.clone().unwrap_or_else(|| self.containerd_socket())
    }

    pub fn cni_dir(&self) -> PathBuf {
        self.data_dir.join("cni")
    }

    /// Volumes, termination messages and hosts files, one directory per pod UID.
    pub fn pods_dir(&self) -> PathBuf {
        self.data_dir.join("pods")
    }

    /// Files of static pods.
    pub fn manifests_dir(&self) -> PathBuf {
        self.data_dir.join("manifests")
    }

    pub fn logs_dir(&self) -> PathBuf {
        self.data_dir.join("logs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, dir: &str) -> Config {
        Config::new(name, Path::new(dir), "10.0.0.1".parse().unwrap())
    }

    #[test]
    fn what_is_refused() {
        let check = |name: &str, dir: &str, ok: bool| {
            assert_eq!(config(name, dir).validate().is_ok(), ok, "{name} {dir}");
        };
        check("node-1.example", "/var/lib/minik8s", true);
        check("node-1", "relative", false);
        check("node-1", "/var/lib/with\"quote", false);
        check("node-1", &format!("/{}", "x".repeat(100)), false);
        check("Node", "/var/lib/minik8s", false);
        check("", "/var/lib/minik8s", false);
        check("-a", "/var/lib/minik8s", false);
    }

    #[test]
    fn a_pod_cidr_needs_room() {
        let mut config = config("a", "/d");
        config.pod_cidr = Some("10.0.0.0/30".parse().unwrap());
        assert_eq!(config.validate(), Err(ConfigError::PodCidr("10.0.0.0/30".parse().unwrap())));
    }

    #[test]
    fn data_dirs_have_names_of_their_own() {
        assert_ne!(config("a", "/one").instance(), config("a", "/two").instance());
        assert_eq!(config("a", "/one").instance().len(), 8);
    }
}
