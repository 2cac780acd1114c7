//! Nodes without machines: pods bound to them run as soon as they are seen, in the API only.
//!
//! For benchmarks of the control plane, and for users who want to try a large cluster. Two controllers like
//! any other: one keeps the Node objects and their leases, one plays kubelet for the pods. A pod may say in
//! annotations how long it runs and how it ends ([`RUN_SECONDS`], [`EXIT_CODE`]).

mod nodes;
mod pod;
mod pods;

use kube::Client;
use minik8s_runtime::{Caches, Manager, Settings};
use tokio_util::sync::CancellationToken;

pub use nodes::SimulatedNodes;
pub use pods::{EXIT_CODE, RUN_SECONDS, SimulatedPods};

/// Marks nodes that are simulated.
pub const LABEL: &str = "minik8s.io/simulated";

pub struct Config {
    pub nodes: usize,
    pub pods_per_node: u32,
    pub stop: CancellationToken,
}

/// Joins the nodes and plays their kubelets until `config.stop`. The nodes stay behind; [`remove`] removes
/// them.
pub async fn run(client: Client, config: Config) {
    let caches = Caches::new(client.clone(), config.stop.clone());
    let settings = Settings { stop: config.stop, ..Settings::default() };
    let mut manager = Manager::new(client, caches, settings);
    manager.add(SimulatedNodes { count: config.nodes, pods_per_node: config.pods_per_node });
    manager.add(SimulatedPods);
    manager.run().await;
}

/// Deletes all simulated nodes.
pub async fn remove(client: Client) -> Result<(), kube::Error> {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client);
    let simulated = kube::api::ListParams::default().labels(LABEL);
    nodes.delete_collection(&kube::api::DeleteParams::default(), &simulated).await.map(drop)
}

#[cfg(test)]
mod tests;
