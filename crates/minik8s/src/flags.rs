//! The command line. Names here are an interface: scripts rely on them.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use ipnet::Ipv4Net;

use crate::agent::AgentFlags;
use crate::backup::{BackupFlags, RestoreFlags, StoreCommand};
use crate::cluster::ClusterCommand;
use crate::doctor::DoctorFlags;
use crate::etcd_flags::EtcdFlags;
use crate::node::MachineFlags;
use crate::simulate::SimulateFlags;
use crate::token::TokenCommand;
use crate::why::WhyFlags;

/// Kubernetes in one small binary.
#[derive(Debug, Parser)]
#[command(name = "minik8s", version, about, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the control plane, and a node beside it
    #[command(after_help = "Examples:
  minik8s server
  minik8s server --data-dir /srv/minik8s --port 7443
  minik8s server --no-agent --store etcd=http://10.0.0.1:2379")]
    Server(ServerFlags),
    /// Run a node of a cluster whose servers are elsewhere
    #[command(after_help = "Examples:
  minik8s agent --server https://10.0.0.1:6443 --token @join-token
  minik8s agent --leave")]
    Agent(AgentFlags),
    /// List, make and revoke the tokens with which machines join
    #[command(subcommand)]
    Token(TokenCommand),
    /// Look for what stands in the way on this machine, and say what to do about it
    #[command(after_help = "Example: minik8s doctor")]
    Doctor(DoctorFlags),
    /// Handle the images of this machine's node
    #[command(subcommand)]
    Image(ImageCommand),
    /// Show or change settings of the whole cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Write the whole cluster to one file; servers may run
    Backup(BackupFlags),
    /// Make a store from the file that `minik8s backup` wrote
    Restore(RestoreFlags),
    /// Move a cluster between stores
    #[command(subcommand)]
    Store(StoreCommand),
    /// Join nodes without machines, for benchmarks or to try a large cluster
    Simulate(SimulateFlags),
    /// Explain why a pod is pending, crashing or not ready
    Why(WhyFlags),
    /// End all pods of a stopped node and remove what they left on this machine; its data stays
    #[command(after_help = "Example: minik8s teardown --data-dir /var/lib/minik8s")]
    Teardown(NodeFlags),
}

/// Everything the program can do: the commands of a machine, and the verbs of clusters.
pub fn command_line() -> clap::Command {
    Cli::command().subcommands(minik8s_cli::command().get_subcommands().cloned())
}

#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Load docker or OCI archives
    #[command(after_help = "Example: minik8s image load web.tar")]
    Load {
        #[arg(required = true, value_name = "FILE.tar")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        node: NodeFlags,
    },
    /// List the images that pods can use without a pull
    #[command(after_help = "Example: minik8s image list")]
    List {
        #[command(flatten)]
        node: NodeFlags,
    },
    /// Remove images by name
    #[command(after_help = "Example: minik8s image rm minik8s.io/web:1")]
    Rm {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        node: NodeFlags,
    },
}

#[derive(Debug, Args)]
pub struct NodeFlags {
    /// The node's data dir
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    pub data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct ServerFlags {
    /// Where the cluster's state, certificates and containers are kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    pub data_dir: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0")]
    pub bind: IpAddr,
    /// Port to listen on
    #[arg(long, value_name = "N", default_value_t = 6443)]
    pub port: u16,
    /// Where objects are stored: redb (a file below the data dir) or etcd=URL[,URL...]
    #[arg(long, value_name = "redb|etcd=URL[,URL...]", default_value = "redb", value_parser = StoreFlag::parse)]
    pub store: StoreFlag,
    #[command(flatten)]
    pub etcd: EtcdFlags,
    /// Range of virtual Service addresses
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/12")]
    pub service_cidr: Ipv4Net,
    /// Range of pod addresses; every node gets a part of it
    #[arg(long, value_name = "CIDR", default_value = "10.244.0.0/16")]
    pub cluster_cidr: Ipv4Net,
    /// DNS domain of the cluster
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Static tokens: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "CSV")]
    pub token_auth_file: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineFlags,
    /// After this many seconds without a sign of life a node counts as dead
    #[arg(long, value_name = "SECONDS", default_value_t = 40, value_parser = clap::value_parser!(u32).range(3..=3600))]
    pub node_grace: u32,
    /// Run the control plane alone, without a node on this machine
    #[arg(long)]
    pub no_agent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFlag {
    Redb,
    Etcd(Vec<String>),
}

impl StoreFlag {
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "redb" => Ok(StoreFlag::Redb),
            Some(("etcd", urls)) if !urls.is_empty() && urls.split(',').all(is_url) => {
                Ok(StoreFlag::Etcd(urls.split(',').map(str::to_owned).collect()))
            }
            Some(("etcd", _)) => Err("give the addresses of etcd, e.g. etcd=http://10.0.0.1:2379".to_owned()),
            _ => Err("use redb or etcd=URL[,URL...]".to_owned()),
        }
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn store_flag() {
        assert_eq!(StoreFlag::parse("redb"), Ok(StoreFlag::Redb));
        let two = StoreFlag::Etcd(vec!["http://a:1".to_owned(), "http://b:2".to_owned()]);
        assert_eq!(StoreFlag::parse("etcd=http://a:1,http://b:2"), Ok(two));
        for wrong in ["", "sqlite", "etcd", "etcd=", "etcd=a:1", "etcd=http://a:1,"] {
            assert!(StoreFlag::parse(wrong).is_err(), "{wrong}");
        }
    }
}
