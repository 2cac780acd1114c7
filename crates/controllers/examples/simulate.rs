//! Joins simulated nodes to the cluster of the current kubeconfig:
//! `cargo run --example simulate -- 100`.

use minik8s_controllers::simulate;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10);
    let client = kube::Client::try_default().await?;
    let stop = CancellationToken::new();
    let config = simulate::Config { nodes, pods_per_node: 110, stop: stop.clone() };
    let running = tokio::spawn(simulate::run(client.clone(), config));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    running.await?;
    simulate::remove(client).await?;
    Ok(())
}
