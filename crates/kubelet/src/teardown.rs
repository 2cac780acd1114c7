//! Takes a node apart: all its pods, its containerd, and what both leave behind on the host.
//!
//! Never called by the agent itself, whose end must stop no pod. The data dir stays.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures::StreamExt;
use minik8s_datadir::{UnmountError, unmount_inside};
use minik8s_shared_storage::{SharedError, SharedStorageAgent};
use thiserror::Error;
use tracing::warn;

use crate::containerd::{Containerd, ContainerdError, Host, Settings, kill_tree, shims};
use crate::cri::{Cri, Runtime, RuntimeError};
use crate::{Config, cgroup, cni, devices, storage};

/// Pods ended at the same time.
const AT_ONCE: usize = 8;
const STOPS: usize = 10;
const BETWEEN_STOPS: Duration = Duration::from_millis(200);

/// Why a node is not taken apart to the end: doing it again goes on.
#[derive(Debug, Error)]
pub enum TearDownError {
    #[error("containerd does not start to end its pods")]
    Containerd(#[from] ContainerdError),
    #[error("not all pods could be removed")]
    Pods(#[from] RuntimeError),
    #[error("a volume cannot be put away")]
    Volumes(#[from] storage::StorageError),
    #[error("shared storage cannot be stopped")]
    Shared(#[from] SharedError),
    #[error(transparent)]
    Unmount(#[from] UnmountError),
}

/// Does as much as it can, and tells the first thing that failed.
pub async fn tear_down(config: &Config) -> Result<(), TearDownError> {
    let mut failed: Option<TearDownError> = None;
    if config.cri_endpoint.is_none() && config.containerd_socket().exists() {
        // Only a running containerd ends its containers.
        let host = Host::detect(&config.data_dir);
        if let Err(error) = Containerd::start(Settings::new(config, host)).await {
            failed = failed.or(Some(error.into()));
        }
    }
    if config.cri_socket().exists()
        && let Err(error) = remove_pods(&Cri::new(&config.cri_socket())).await
    {
        failed = failed.or(Some(error.into()));
    }
    if config.cri_endpoint.is_none() {
        Containerd::stop_running(&config.containerd_dir()).await;
        // A start that was cut off inside containerd can leave a shim that containerd itself has forgotten.
        shims(&config.containerd_socket()).iter().for_each(|shim| kill_tree(shim.pid));
    }
    if let Err(error) = storage::put_all_away(config) {
        failed = failed.or(Some(error.into()));
    }
    if let Err(error) = SharedStorageAgent::tear_down(config.shared_storage()) {
        failed = failed.or(Some(error.into()));
    }
    for dir in [
        config.pods_dir(),
        config.volumes_dir(),
        config.nfs_dir(),
        config.disks_dir(),
        config.plugins_dir(),
        config.containerd_dir(),
    ] {
        if let Err(error) = unmount_inside(&dir) {
            failed = failed.or(Some(error.into()));
        }
    }
    cgroup::remove_tree(&config.cgroup_root());
    devices::unlink_standard_paths(&config.data_dir);
    if let Err(error) = cni::remove_rules(&config.instance()) {
        warn!(%error, "cannot look for address translation that was left behind");
    }
    // Fails when there is no such bridge, which is what we want.
    let delete = ["link", "delete", &cni::bridge_name(&config.instance())];
    let _ = Command::new("ip").args(delete).stderr(Stdio::null()).status();
    failed.map_or(Ok(()), Err)
}

/// One pod that does not go must not keep the others.
async fn remove_pods(cri: &Cri) -> Result<(), RuntimeError> {
    let removals = cri.pod_uids().await?.into_iter().map(|uid| remove_pod(cri, uid));
    let results: Vec<_> = futures::stream::iter(removals).buffer_unordered(AT_ONCE).collect().await;
    results.into_iter().collect()
}

async fn remove_pod(cri: &Cri, uid: String) -> Result<(), RuntimeError> {
    for sandbox in cri.pod(&uid).await?.sandboxes {
        stop(cri, &sandbox.id).await?;
        cri.remove_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

/// A shim that ends by itself while it is asked to end refuses; containerd knows a moment later that it is gone.
async fn stop(cri: &Cri, sandbox: &str) -> Result<(), RuntimeError> {
    for _ in 0..STOPS {
        match cri.stop_sandbox(sandbox).await {
            Ok(()) => return Ok(()),
            Err(error) => warn!(sandbox, %error, "cannot stop a pod yet"),
        }
        tokio::time::sleep(BETWEEN_STOPS).await;
    }
    cri.stop_sandbox(sandbox).await
}
