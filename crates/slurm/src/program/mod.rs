//! `minik8s slurm-submit`: what runs in the pod of one job, or looks at one cluster.
//!
//! Each round looks at the cluster, decides ([`crate::decide`]), does that, and reports to the object's status. Nothing is
//! kept here between rounds that the next process could not find out, so it may be killed whenever it is.

mod job;
mod keep;
mod output;
mod pace;
mod probe;
mod report;
mod results;
mod source;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kube::{Api, Client};

use crate::kinds::{SlurmCluster, SlurmClusterSpec};
use crate::remote::{Credentials, Remote, Rest, Ssh};

pub use keep::{MOST_PARTS, part_name};
pub use probe::gpus;
pub use source::{Package, hex};

/// Where the pod has things; the controller sets them so.
#[derive(Debug, Clone, Default, Args)]
pub struct SubmitFlags {
    /// The GPUJob to bring to its cluster
    #[arg(long, value_name = "NAME", required_unless_present = "cluster")]
    pub job: Option<String>,
    /// The SlurmCluster to run on; without a job, to look at
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// The mounted Secret
    #[arg(long, value_name = "DIR", default_value = "/credentials")]
    pub credentials: PathBuf,
    /// A directory of its own, in memory, for what ssh needs
    #[arg(long, value_name = "DIR", default_value = "/run/slurm")]
    pub state: PathBuf,
    /// The mounted ConfigMap with sources
    #[arg(long, value_name = "DIR")]
    pub source_config: Option<PathBuf>,
    /// The mounted claim with sources
    #[arg(long, value_name = "DIR")]
    pub source_claim: Option<PathBuf>,
    /// The mounted claim for results
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
}

/// Runs to the end of the job, or of one look at the cluster.
pub async fn run(flags: SubmitFlags) -> anyhow::Result<()> {
    let config = kube::Config::incluster_env().context("this runs in a pod of a GPUJob")?;
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config)?;
    let name = flags.cluster.clone().unwrap_or_default();
    let clusters: Api<SlurmCluster> = Api::namespaced(client.clone(), &namespace);
    let cluster =
        clusters.get(&name).await.with_context(|| format!("cannot read the SlurmCluster {name}"))?;
    let connection = connect(&flags, &cluster.spec);
    match flags.job.clone() {
        None => probe::run(&clusters, &cluster, connection).await,
        Some(job) => {
            let remote = connection.map_err(anyhow::Error::msg)?;
            job::Follower::new(client, &namespace, flags, job, cluster, remote).run().await
        }
    }
}

fn connect(flags: &SubmitFlags, spec: &SlurmClusterSpec) -> Result<Remote, String> {
    if spec.slurmrestd.is_some() {
        return Rest::new(spec, &flags.credentials, &flags.state).map(Remote::Rest);
    }
    let credentials = Credentials::in_directory(&flags.credentials)?;
    let ssh = Ssh::new(spec, &credentials, &flags.state);
    ssh.map(Remote::Ssh).map_err(|error| format!("cannot prepare ssh: {error}"))
}
