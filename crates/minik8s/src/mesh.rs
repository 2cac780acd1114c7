//! `minik8s mesh`: the commands are the feature's; which cluster they talk to is ours.

use minik8s_cli::GlobalFlags;
use minik8s_mesh::command::{self, MeshCommand};

use crate::kubeconfig;

pub async fn run(command: MeshCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    let (client, namespace) = kubeconfig::client(global).await?;
    command::run(command, client, &namespace).await
}
