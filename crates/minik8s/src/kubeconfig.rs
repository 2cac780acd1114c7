//! Which cluster a command of this crate talks to: found as the verbs of `minik8s-cli` find it.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

/// The cluster to talk to.
#[derive(Debug, Default, Args)]
pub struct ClusterFlags {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the local server's]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// A client of the cluster, and the namespace its kubeconfig names.
pub async fn client(flags: &ClusterFlags) -> anyhow::Result<(kube::Client, String)> {
    let config = minik8s_cli::cluster(flags.kubeconfig.clone(), flags.context.clone()).await;
    let config =
        config.map_err(|error| anyhow!(error.to_string().trim_start_matches("error: ").to_owned()))?;
    let namespace = config.default_namespace.clone();
    Ok((kube::Client::try_from(config)?, namespace))
}
