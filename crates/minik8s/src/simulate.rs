//! `minik8s simulate`: nodes without machines, for benchmarks and for trying a large cluster.

use anyhow::{Context, ensure};
use clap::Args;
use minik8s_cli::GlobalFlags;
use minik8s_controllers::simulate;
use tokio_util::sync::CancellationToken;

use crate::kubeconfig;
use crate::server::wait_for_signal;

#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s simulate --nodes 100")]
pub struct SimulateFlags {
    /// How many nodes to join
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    nodes: u32,
    /// How many pods each of them takes
    #[arg(long, value_name = "N", default_value_t = 110)]
    pods_per_node: u32,
}

/// Plays the nodes until it is interrupted, and removes them again.
pub async fn run(flags: SimulateFlags, global: &GlobalFlags) -> anyhow::Result<()> {
    let (client, _) = kubeconfig::client(global).await?;
    // A cluster that does not answer is told about now, not by a thousand retries.
    let version = client.apiserver_version().await.context("the cluster does not answer")?;
    let stop = CancellationToken::new();
    let nodes = usize::try_from(flags.nodes)?;
    let config = simulate::Config { nodes, pods_per_node: flags.pods_per_node, stop: stop.clone() };
    let running = tokio::spawn(simulate::run(client.clone(), config));
    eprintln!(
        "{nodes} simulated nodes join the cluster (Kubernetes {}); their pods run in the API only.\n\
         Ctrl-C ends and removes them.",
        version.git_version
    );
    wait_for_signal().await?;
    stop.cancel();
    let ended = running.await;
    simulate::remove(client).await.context("cannot remove the simulated nodes")?;
    ensure!(ended.is_ok(), "the simulation broke off");
    Ok(())
}
