//! `minik8s workflow`: the verbs of `minik8s-workflows`, with the cluster that the flags name.

use minik8s_cli::GlobalFlags;
use minik8s_workflows::verbs::{self, WorkflowCommand};

use crate::{kubeconfig, output};

pub async fn run(command: WorkflowCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    let connect = || kubeconfig::client(global);
    output::words(&verbs::run(command, minik8s_cli::place, connect).await?)?;
    Ok(())
}
