//! Takes a node apart: all its pods, its containerd, and what both leave behind on the host.
//!
//! Never called by the agent itself, whose end must stop no pod. The data dir stays.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, umount2};
use tracing::warn;

use crate::containerd::Containerd;
use crate::cri::{Cri, Runtime, RuntimeError};
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

fn unmount_below(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut points: Vec<_> = points.map(Path::new).filter(|point| point.starts_with(dir)).collect();
    points.reverse();
    for point in points {
        if let Err(error) = umount2(point, MntFlags::MNT_DETACH) {
            warn!(%error, ?point, "cannot unmount");
        }
    }
}
