//! Takes a node apart: all its pods, its containerd, and what both leave behind on the host.
//!
//! Never called by the agent itself, whose end must stop no pod. The data dir stays.

use std::process::{Command, Stdio};

use tracing::warn;

use crate::containerd::Containerd;
use crate::cri::{Cri, Runtime, RuntimeError};
use crate::volume::unmount_below;
use crate::{Config, cgroup, cni};

/// Does as much as it can; what fails is logged.
pub async fn tear_down(config: &Config) {
    if config.cri_socket().exists()
        && let Err(error) = remove_pods(&Cri::new(&config.cri_socket())).await
    {
        warn!(%error, "cannot remove all pods");
    }
    if config.cri_endpoint.is_none() {
        Containerd::stop_running(&config.containerd_dir()).await;
    }
    unmount_below(&config.data_dir);
    cgroup::remove_tree(&config.cgroup_root());
    // Fails when there is no such bridge, which is what we want.
    let delete = ["link", "delete", &cni::bridge_name(&config.instance())];
    let _ = Command::new("ip").args(delete).stderr(Stdio::null()).status();
}

async fn remove_pods(cri: &Cri) -> Result<(), RuntimeError> {
    for uid in cri.pod_uids().await? {
        let pod = cri.pod(&uid).await?;
        for sandbox in pod.sandboxes {
            cri.stop_sandbox(&sandbox.id).await?;
            cri.remove_sandbox(&sandbox.id).await?;
        }
    }
    Ok(())
}
