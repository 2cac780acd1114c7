//! Takes a node apart: all its pods, its containerd, and what both leave behind on the host.
//!
//! Never called by the agent itself, whose end must stop no pod. The data dir stays.

use std::process::{Command, Stdio};

use futures::StreamExt;
use tracing::warn;

use crate::containerd::{Containerd, Host, Settings, kill_tree, shims};
use crate::cri::{Cri, Runtime, RuntimeError};
use crate::volume::unmount_below;
use crate::{Config, cgroup, cni};

/// Pods ended at the same time.
const AT_ONCE: usize = 8;

/// Does as much as it can; what fails is logged.
pub async fn tear_down(config: &Config) {
    if config.cri_endpoint.is_none() && config.containerd_socket().exists() {
        // Only a running containerd ends its containers.
        let host = Host::detect(&config.data_dir);
        if let Err(error) = Containerd::start(Settings::new(config, host)).await {
            warn!(error = &error as &dyn std::error::Error, "cannot start containerd to end its pods");
        }
    }
    if config.cri_socket().exists()
        && let Err(error) = remove_pods(&Cri::new(&config.cri_socket())).await
    {
        warn!(%error, "cannot remove all pods");
    }
    if config.cri_endpoint.is_none() {
        Containerd::stop_running(&config.containerd_dir()).await;
        // A start that was cut off inside containerd can leave a shim that containerd itself has forgotten.
        shims(&config.containerd_socket()).iter().for_each(|shim| kill_tree(shim.pid));
    }
    unmount_below(&config.data_dir);
    cgroup::remove_tree(&config.cgroup_root());
    if let Err(error) = cni::remove_rules(&config.instance()) {
        warn!(%error, "cannot look for address translation that was left behind");
    }
    // Fails when there is no such bridge, which is what we want.
    let delete = ["link", "delete", &cni::bridge_name(&config.instance())];
    let _ = Command::new("ip").args(delete).stderr(Stdio::null()).status();
}

/// One pod that does not go must not keep the others.
async fn remove_pods(cri: &Cri) -> Result<(), RuntimeError> {
    let removals = cri.pod_uids().await?.into_iter().map(|uid| remove_pod(cri, uid));
    let results: Vec<_> = futures::stream::iter(removals).buffer_unordered(AT_ONCE).collect().await;
    results.into_iter().collect()
}

async fn remove_pod(cri: &Cri, uid: String) -> Result<(), RuntimeError> {
    for sandbox in cri.pod(&uid).await?.sandboxes {
        cri.stop_sandbox(&sandbox.id).await?;
        cri.remove_sandbox(&sandbox.id).await?;
    }
    Ok(())
}
