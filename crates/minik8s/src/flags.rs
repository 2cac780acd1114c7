//! The command line. Names here are an interface: scripts rely on them.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use minik8s_cli::GlobalFlags;
use minik8s_mesh::command::MeshCommand;
use minik8s_mesh::sidecar::Role;
use minik8s_meta::Cidrs;
use minik8s_slurm::command::GpuCommand;
use minik8s_slurm::program::SubmitFlags;

use crate::agent::AgentFlags;
use crate::audit_flags::AuditFlags;
use crate::authentication::AuthenticationFlags;
use crate::authorization::AuthorizationFlags;
use crate::backup::{BackupFlags, RestoreFlags, StoreCommand};
use crate::cluster::ClusterCommand;
use crate::dashboard::DashboardFlags;
use crate::doctor::DoctorFlags;
use crate::etcd_flags::EtcdFlags;
use crate::function::FunctionCommand;
use crate::history_flag::HistoryFlag;
use crate::mesh_switch::Switch;
use crate::monitoring::MonitoringCommand;
use crate::node::MachineFlags;
use crate::simulate::SimulateFlags;
use crate::storage::StorageCommand;
use crate::teardown::TeardownFlags;
use crate::terminal_ui::UiFlags;
use crate::token::TokenCommand;
use crate::trigger::TriggerCommand;
use crate::uninstall::UninstallFlags;
use crate::why::WhyFlags;
use minik8s_workflows::verbs::WorkflowCommand;

/// Kubernetes in one small binary.
#[derive(Debug, Parser)]
#[command(name = "minik8s", version, about, disable_help_subcommand = true, args_override_self = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalFlags,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the control plane, and a node beside it
    #[command(after_help = "Examples:
  minik8s server
  minik8s server --data-dir /srv/minik8s --port 7443
  minik8s server --mesh
  minik8s server --no-agent --store etcd=http://10.0.0.1:2379")]
    Server(Box<ServerFlags>),
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
    /// Make, call and look at functions
    #[command(subcommand)]
    Function(FunctionCommand),
    /// Make, fire and look at triggers, which call functions or start workflows when something happens
    #[command(subcommand)]
    Trigger(TriggerCommand),
    /// Show or change settings of the whole cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Open the cluster in the browser, with the rights of your kubeconfig
    Dashboard(DashboardFlags),
    /// Look at the cluster in this terminal, live: pods, nodes, events, logs, why; with the keys of k9s
    Ui(UiFlags),
    /// Run Prometheus in the cluster, open it, and write dashboards
    #[command(subcommand)]
    Monitoring(MonitoringCommand),
    /// Set up volumes that every node shares, and see how they are
    #[command(subcommand)]
    Storage(StorageCommand),
    /// Write the whole cluster to one file; servers may run
    Backup(BackupFlags),
    /// Make a store from the file that `minik8s backup` wrote
    Restore(RestoreFlags),
    /// Move a cluster between stores
    #[command(subcommand)]
    Store(StoreCommand),
    /// Join nodes without machines, for benchmarks or to try a large cluster
    Simulate(SimulateFlags),
    /// Make, run and follow workflows in the Amazon States Language
    #[command(subcommand)]
    Workflow(WorkflowCommand),
    /// Run CUDA programs on a Slurm cluster, and fetch their results
    #[command(subcommand)]
    Gpu(GpuCommand),
    /// Follow one GPU job; its pod runs this
    #[command(hide = true, after_help = "Example: minik8s slurm-submit --cluster pi --job matmul")]
    SlurmSubmit(SubmitFlags),
    /// Split requests between versions of a Service, and see who routes so
    #[command(subcommand)]
    Mesh(MeshCommand),
    /// Lead the connections of one pod; its proxy runs this
    #[command(hide = true, after_help = "Example: minik8s sidecar")]
    Sidecar {
        /// What this process does for its pod
        #[arg(long, value_enum, value_name = "ROLE", default_value = "first")]
        role: Role,
    },
    /// Explain why a pod is pending, crashing or not ready
    Why(WhyFlags),
    /// End all pods of a stopped node and remove what they left on this machine; its data stays
    #[command(after_help = "Examples:
  minik8s teardown --data-dir /var/lib/minik8s
  minik8s teardown --purge")]
    Teardown(TeardownFlags),
    /// Stop minik8s, end its pods, and remove the program and the units that `make install` installed
    #[command(after_help = "Example: minik8s uninstall --purge")]
    Uninstall(UninstallFlags),
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
    /// Write the small images that the README's tour and the tests use, as archives; needs /bin/busybox
    #[command(after_help = "Example: minik8s image samples images/out")]
    Samples {
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Make the image that GPU jobs' pods run, of this program and the machine's ssh; nodes do it when they need it
    #[command(after_help = "Example: minik8s image slurm-submit")]
    SlurmSubmit {
        #[command(flatten)]
        node: NodeFlags,
    },
    /// Make one of the images that minik8s makes of the machine's packages; nodes do it when they need it
    #[command(after_help = "Example: minik8s image make minik8s.io/prometheus:1")]
    Make {
        #[arg(value_name = "IMAGE")]
        image: String,
        #[command(flatten)]
        node: NodeFlags,
    },
    /// Put files on top of an image of this node, without a builder
    #[command(after_help = "Examples:
  minik8s image build ./app --base minik8s.io/function-python:3.11-7 --tag app:1 --entrypoint python3.11,/app/main.py
  minik8s image build site.html --base minik8s.io/web:1 --tag site:1 --to /srv
  minik8s image build ./app --tag app:1")]
    Build {
        #[arg(value_name = "DIR|FILE")]
        from: PathBuf,
        /// An image of this node, or a runtime of functions; without it the folder's Dockerfile says (FROM, COPY, ENV,
        /// WORKDIR, ENTRYPOINT, CMD)
        #[arg(long, value_name = "IMAGE")]
        base: Option<String>,
        /// The name of the result
        #[arg(long, value_name = "NAME")]
        tag: String,
        /// The folder in the image that the files go to
        #[arg(long, value_name = "PATH", default_value = "/app")]
        to: String,
        /// A Debian package of this machine whose files, and those of what it needs, go in as well
        #[arg(long, value_name = "NAME")]
        package: Vec<String>,
        /// A variable of its containers
        #[arg(long, value_name = "NAME=VALUE")]
        env: Vec<String>,
        /// The program that its containers run, and its words
        #[arg(long, value_name = "WORD[,WORD...]", value_delimiter = ',')]
        entrypoint: Vec<String>,
        /// Arguments of the program
        #[arg(long, value_name = "WORD[,WORD...]", value_delimiter = ',')]
        command: Vec<String>,
        #[command(flatten)]
        node: NodeFlags,
    },
    /// List the images that pods can use without a pull
    #[command(after_help = "Example: minik8s image list")]
    List {
        #[command(flatten)]
        node: NodeFlags,
    },
    /// Pull images from where their names say
    #[command(after_help = "Example: minik8s image pull registry.example.com/shop/web:1")]
    Pull {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        node: NodeFlags,
    },
    /// Push an image of this node to the registry in the server
    #[command(after_help = "Examples:
  minik8s image push app:1
  minik8s image push app:1 --to shop/web:2")]
    Push {
        #[arg(value_name = "NAME")]
        name: String,
        /// Where to; the namespace in use and the image's own name by default
        #[arg(long, value_name = "NAMESPACE/NAME[:TAG]")]
        to: Option<String>,
        #[command(flatten)]
        node: NodeFlags,
    },
    /// Remove images that no container of this node was made from
    #[command(after_help = "Example: minik8s image prune")]
    Prune {
        #[command(flatten)]
        node: NodeFlags,
    },
    /// Remove images by name
    #[command(alias = "remove", after_help = "Example: minik8s image rm minik8s.io/web:1")]
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
    /// Address to listen on; all by default, those of IPv6 only if the cluster has such
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Port to listen on
    #[arg(long, value_name = "N", default_value_t = 6443)]
    pub port: u16,
    /// Where objects are stored: redb (a file below the data dir) or etcd=URL[,URL...]
    #[arg(long, value_name = "redb|etcd=URL[,URL...]", default_value = "redb", value_parser = StoreFlag::parse)]
    pub store: StoreFlag,
    #[command(flatten)]
    pub etcd: EtcdFlags,
    /// How far back the cluster can be read (time travel in the dashboard), and how large that may grow on the disk
    #[arg(long, value_name = "DURATION[,SIZE]", default_value = "5m,256MiB", value_parser = HistoryFlag::parse)]
    pub history: HistoryFlag,
    /// Range of virtual Service addresses, or one of each family: 10.96.0.0/12,fd00:10:96::/112
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.96.0.0/12")]
    pub service_cidr: Cidrs,
    /// Range of pod addresses, or one of each family: 10.244.0.0/16,fd00:10:244::/56; every node gets a part
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.244.0.0/16")]
    pub cluster_cidr: Cidrs,
    /// DNS domain of the cluster
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Static tokens: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "CSV")]
    pub token_auth_file: Option<PathBuf>,
    #[command(flatten)]
    pub authentication: Box<AuthenticationFlags>,
    #[command(flatten)]
    pub authorization: Box<AuthorizationFlags>,
    /// Encrypt resources in the store as this EncryptionConfiguration (apiserver.config.k8s.io/v1) says; a changed file is
    /// read again. All servers of a cluster alike
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    #[command(flatten)]
    pub audit: Box<AuditFlags>,
    /// Let Services have externalIPs: who may write Services can then take over traffic to any address
    #[arg(long)]
    pub allow_external_ips: bool,
    /// Give every pod a proxy, through which its requests go as VirtualServices say; all servers of a cluster alike
    #[arg(long)]
    pub mesh: bool,
    /// What the cluster's setting says about it, of a server that was started anew for that
    #[arg(long, value_name = "ON|OFF", hide = true)]
    pub mesh_setting: Option<Switch>,
    #[command(flatten)]
    pub machine: MachineFlags,
    /// After this many seconds without a sign of life a node counts as dead
    #[arg(long, value_name = "SECONDS", default_value_t = 40, value_parser = clap::value_parser!(u32).range(3..=3600))]
    pub node_grace: u32,
    /// Do without a feature of the control plane or of the node; give it several times to do without several
    #[arg(long, value_name = "NAME")]
    pub disable_feature: Vec<String>,
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
    use std::collections::BTreeSet;

    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    /// Whoever writes an alias puts them first, whatever follows.
    #[test]
    fn global_flags_are_accepted_before_every_command() {
        let lines = [
            "server",
            "agent",
            "doctor",
            "token list",
            "image list",
            "cluster set scheduler.strategy=binpack",
            "cluster get",
            "backup f",
            "restore f",
            "store copy --from redb:/a --to redb:/b",
            "simulate --nodes 1",
            "why pod/x",
            "why connection a b:80",
            "dashboard",
            "ui",
            "monitoring disable",
            "storage enable shared --nodes a,b",
            "storage status",
            "storage recover shared --master b",
            "storage disable shared",
            "function list",
            "function calls f",
            "trigger list",
            "workflow runs",
            "gpu list",
            "slurm-submit --cluster b",
            "mesh status",
            "mesh tap deploy/web --status 5xx",
            "sidecar",
            "sidecar --role successor",
            "teardown",
            "uninstall",
        ];
        let parse = |line: &str| {
            let words = line.split(' ').filter(|word| !word.is_empty());
            let matches = command_line().try_get_matches_from(["minik8s"].into_iter().chain(words))?;
            Cli::from_arg_matches(&matches)
        };
        for line in lines {
            let global = "--kubeconfig F -n x --context c --request-timeout 5s --as me --server https://s";
            let cli = parse(&format!("{global} {line}")).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(cli.global.kubeconfig.as_deref(), Some("F".as_ref()), "{line}");
            assert_eq!(cli.global.namespace.as_deref(), Some("x"), "{line}");
            assert_eq!(cli.global.server.as_deref(), Some("https://s"), "{line}");
        }
        let known: BTreeSet<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
        let command = Cli::command();
        let all: BTreeSet<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(known, all, "a command is missing in this test");
        // Behind it as well; and a flag of the command's own is the command's.
        let cli = parse("why pod/x -n y --kubeconfig G").unwrap();
        assert_eq!(cli.global.namespace.as_deref(), Some("y"));
        let cli = parse("agent --server https://a:1 --token t").unwrap();
        assert_eq!((cli.global.server, cli.global.token), (None, None));
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
