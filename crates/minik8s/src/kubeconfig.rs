//! Which cluster a command of this crate talks to: found by the flags, and in the way, of the verbs of `minik8s-cli`.

use anyhow::anyhow;
use minik8s_cli::GlobalFlags;

/// A client of the cluster, and the namespace to work in: the flag's or the kubeconfig's.
pub async fn client(flags: &GlobalFlags) -> anyhow::Result<(kube::Client, String)> {
    let config = load(flags).await?;
    let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok((kube::Client::try_from(config)?, namespace))
}

pub async fn load(flags: &GlobalFlags) -> anyhow::Result<kube::Config> {
    let config = minik8s_cli::cluster(flags).await;
    let mut config =
        config.map_err(|error| anyhow!(error.to_string().trim_start_matches("error: ").to_owned()))?;
    // Nothing for any time, as kubectl has it.
    config.read_timeout = Some(flags.request_timeout).filter(|timeout| !timeout.is_zero());
    Ok(config)
}

/// Whether the flags say which cluster it is.
pub fn names_a_cluster(flags: &GlobalFlags) -> bool {
    flags.kubeconfig.is_some() || flags.context.is_some() || flags.cluster.is_some() || flags.server.is_some()
}
