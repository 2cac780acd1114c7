//! What the agent must be told. Everything that can be found out on the host is found out instead.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use minik8s_meta::mesh::MeshStep;
use minik8s_meta::{Cidrs, IpFamily};
use minik8s_telemetry::{LogRecord, Queue};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use crate::devices::TopologyPolicy;
use crate::housekeeping::HousekeepingSettings;
use crate::metrics::MetricsPages;
use crate::pages::FeaturePages;
use crate::server::Serving;
use crate::slots::AdoptedSlots;

/// The interface on the node, and what the pod behind it may send from: its hardware address and its addresses.
pub type PodPort = (String, String, Vec<IpAddr>);
/// Namespace and name of a pod that is about to start, a port to be guarded, and whom to tell that it is, or why not.
pub type PortRequest = (Option<(String, String)>, PodPort, oneshot::Sender<Result<(), String>>);
/// Something about a pod with a proxy of the mesh, and whom to tell that it is done, or why not.
pub type MeshRequest = (MeshStep, oneshot::Sender<Result<(), String>>);
/// A pod (by its UID), which of its requests are wanted (as in a query), where lines about them go, and whom to tell that
/// they come, or why not.
pub type TapRequest = (String, String, mpsc::Sender<Vec<u8>>, oneshot::Sender<Result<(), String>>);
/// A pod (by its UID) that is about to end, and whom to tell that no new connections come to it any more.
pub type DrainRequest = (String, oneshot::Sender<()>);

/// A unix socket's address has room for 107 bytes; containerd appends `.ttrpc` to ours.
const LONGEST_SOCKET_PATH: usize = 100;

#[derive(Debug, Clone)]
pub struct Config {
    pub node_name: String,
    /// Owned by this agent alone: two agents on one host have two data dirs. Without links in its path.
    pub data_dir: PathBuf,
    /// The address under which other nodes reach this one.
    pub node_ip: IpAddr,
    /// Its address of the other family, if it has one.
    pub second_node_ip: Option<IpAddr>,
    /// Addresses of this node's pods. `None`: those that the cluster gives to the Node object.
    pub pod_cidr: Option<Cidrs>,
    /// Whose addresses come first where a pod has some of both: that of the cluster's first range.
    pub primary_family: IpFamily,
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
    /// Of the Node object, for others of the program to read.
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Capacity that replaces what was measured (`cpu`, `memory`, `pods`, extended resources).
    pub capacity: BTreeMap<String, String>,
    pub max_pods: u32,
    /// What becomes of pods whose devices are not near to each other.
    pub topology_policy: TopologyPolicy,
    /// The largest packet of pods. `None`: as large as the bridge takes.
    pub pod_mtu: Option<u32>,
    /// Where the network is told which pods end. `None`: nobody has to be told.
    pub drains: Option<mpsc::Sender<DrainRequest>>,
    /// Who keeps pods from sending with others' addresses. `None`: nobody does.
    pub port_guards: Option<mpsc::Sender<PortRequest>>,
    /// Who leads the connections of pods to their proxies. `None`: nobody does, and no pod with a proxy runs.
    pub mesh: Option<mpsc::Sender<MeshRequest>>,
    /// Who tells of the requests of pods with proxies.
    pub mesh_taps: Option<mpsc::Sender<TapRequest>>,
    /// Runtimes that functions use, by name, for which started sandboxes are kept. `None`: none are.
    pub function_runtimes: Option<watch::Receiver<Arc<BTreeSet<String>>>>,
    /// Pods that have adopted one of those.
    pub adopted_slots: AdoptedSlots,
    /// TCP ports of the node that no pod may take: without them nobody could reach it.
    pub own_ports: BTreeSet<u16>,
    /// Whether a program of the machine listens on a port of that protocol (`TCP`, `UDP`). `None`: nobody knows.
    pub somebody_listens: Option<fn(&str, u16) -> bool>,
    /// Of the agent's other parts, to be shown at `/metrics`.
    pub metrics: MetricsPages,
    /// What the agent's other parts tell the API server at paths of their own.
    pub pages: FeaturePages,
    /// How often the node says that it lives.
    pub heartbeat: Duration,
    /// Processes that a pod may have.
    pub pod_pids: Option<u32>,
    pub housekeeping: HousekeepingSettings,
    /// A call of the container runtime that takes longer than this hangs.
    pub runtime_timeout: Duration,
    /// The longest pause before a container that keeps ending is started again. Short where people develop.
    pub longest_restart_delay: Duration,
    /// Where what containers print is to go as well. `None`: nowhere.
    pub log_export: Option<Queue<LogRecord>>,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error("data dir {0:?} must be an absolute path of plain characters (no quotes, backslashes, spaces)")]
    DataDir(PathBuf),
    #[error("data dir {0:?} is too long: its sockets need paths of at most {LONGEST_SOCKET_PATH} bytes")]
    DataDirTooLong(PathBuf),
    #[error("{0:?} must be a directory to which no link leads; to have it on another disk, mount that there")]
    DataDirLink(PathBuf),
    #[error("node name {0:?} must be a DNS name: lower case letters, digits, '-' and '.'")]
    NodeName(String),
    #[error("pod CIDR {0} has no room for pods: it needs a prefix of at most 29 bits, or 125 of IPv6")]
    PodCidr(Cidrs),
}

impl Config {
    pub fn new(node_name: &str, data_dir: &Path, node_ip: IpAddr) -> Self {
        Config {
            node_name: node_name.to_owned(),
            data_dir: data_dir.to_owned(),
            node_ip,
            second_node_ip: None,
            pod_cidr: None,
            primary_family: IpFamily::V4,
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            cri_endpoint: None,
            port: 10250,
            serving: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            capacity: BTreeMap::new(),
            max_pods: 110,
            topology_policy: TopologyPolicy::default(),
            pod_mtu: None,
            drains: None,
            port_guards: None,
            mesh: None,
            mesh_taps: None,
            function_runtimes: None,
            adopted_slots: AdoptedSlots::default(),
            own_ports: BTreeSet::new(),
            somebody_listens: None,
            metrics: MetricsPages::default(),
            pages: FeaturePages::default(),
            heartbeat: Duration::from_secs(10),
            pod_pids: None,
            housekeeping: HousekeepingSettings::default(),
            runtime_timeout: Duration::from_secs(120),
            longest_restart_delay: Duration::from_secs(300),
            log_export: None,
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
            Some(cidr) if cidr.iter().any(|range| range.max_prefix_len() - range.prefix_len() < 3) => {
                Err(ConfigError::PodCidr(cidr))
            }
            _ => Ok(()),
        }
    }

    /// The addresses under which others reach this node.
    pub fn node_ips(&self) -> impl Iterator<Item = IpAddr> + use<> {
        std::iter::once(self.node_ip).chain(self.second_node_ip)
    }

    /// The same, as objects have them.
    pub fn node_ip_texts(&self) -> Vec<String> {
        self.node_ips().map(|address| address.to_string()).collect()
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

    /// Code of functions, a directory for each of them, by its UID.
    pub fn function_code_dir(&self) -> PathBuf {
        self.data_dir.join("function-code")
    }

    /// Sandboxes that are kept for functions, one directory each.
    pub fn slots_dir(&self) -> PathBuf {
        self.data_dir.join("slots")
    }

    /// Volumes of the class `local`, one directory each: users' data.
    pub fn volumes_dir(&self) -> PathBuf {
        self.data_dir.join("volumes")
    }

    /// What the class `shared` must know of this node.
    pub fn shared_storage(&self) -> minik8s_shared_storage::Machine {
        minik8s_shared_storage::Machine {
            data_dir: self.data_dir.clone(),
            node: self.node_name.clone(),
            address: self.node_ip,
            instance: self.instance(),
            bridge: crate::cni::bridge_name(&self.instance()),
        }
    }

    /// Snapshots of volumes of the class `local`, one directory each.
    pub fn volume_snapshots_dir(&self) -> PathBuf {
        self.data_dir.join("volume-snapshots")
    }

    /// Where nfs volumes are mounted, one directory each.
    pub fn nfs_dir(&self) -> PathBuf {
        self.data_dir.join("nfs")
    }

    /// Where `local` volumes are mounted whose path is a block device, one directory each.
    pub fn disks_dir(&self) -> PathBuf {
        self.data_dir.join("disks")
    }

    /// Where drivers of volumes make themselves known, each by a socket.
    pub fn plugins_registry_dir(&self) -> PathBuf {
        self.data_dir.join("plugins_registry")
    }

    /// Sockets and files of drivers, and below `kubernetes.io/csi` the volumes that they have staged for this node.
    pub fn plugins_dir(&self) -> PathBuf {
        self.data_dir.join("plugins")
    }

    /// Files of static pods.
    pub fn manifests_dir(&self) -> PathBuf {
        self.data_dir.join("manifests")
    }

    /// Where an administrator puts seccomp profiles that pods name as `Localhost`.
    pub fn seccomp_dir(&self) -> PathBuf {
        self.data_dir.join("seccomp")
    }

    pub fn logs_dir(&self) -> PathBuf {
        self.data_dir.join("logs")
    }

    /// Logs of pods that are gone.
    pub fn ended_logs_dir(&self) -> PathBuf {
        self.data_dir.join("ended-logs")
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
