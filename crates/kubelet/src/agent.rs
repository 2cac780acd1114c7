//! The whole agent: brings the runtime up and runs all actors.

use std::sync::Arc;

use thiserror::Error;
use tracing::info;

use crate::Config;
use crate::context::Context;
use crate::cri::Cri;
use crate::events::Recorder;
use crate::machine::Machine;
use crate::node::NodeActor;
use crate::pod::Manager;
use crate::prepare::{PrepareError, prepare};
use crate::sandbox::ResolvConf;

#[derive(Debug, Error)]
pub enum RunError {
    #[error("cannot bring the container runtime up")]
    Prepare(#[from] PrepareError),
}

/// Runs the agent until the returned future is dropped. Pods and containerd go on without it.
pub async fn run(config: Config, client: kube::Client) -> Result<(), RunError> {
    let containerd = prepare(&config).await?;
    let cri = Cri::new(&config.cri_socket());
    let (recorder, write_events) = Recorder::new(client.clone(), &config.node_name);
    let host_dns = ResolvConf::parse(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    let context = Arc::new(Context {
        machine: Machine::detect(&config),
        host_dns,
        runtime: Arc::new(cri.clone()),
        client,
        recorder,
        config,
    });
    info!(node = context.config.node_name, "the node agent runs");
    let supervise = async {
        match containerd {
            Some(mut containerd) => containerd.supervise().await,
            None => std::future::pending().await,
        }
    };
    let node = NodeActor::new(context.clone(), cri);
    tokio::join!(supervise, write_events, node.run(), Manager::new(context).run());
    Ok(())
}
