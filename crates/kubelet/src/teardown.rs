//! Takes a node apart: all its pods, its containerd, and what both leave behind on the host.
//!
//! Never called by the agent itself, whose end must stop no pod. The data dir stays.

use std::path::Path;
use std::process::{Command, Stdio};

use futures::StreamExt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::warn;

use crate::containerd::{Containerd, Host, Settings};
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
        kill_shims(&config.containerd_socket());
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

/// A start that was cut off inside containerd can leave a shim that containerd itself has forgotten.
fn kill_shims(socket: &Path) {
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let is_shim =
            words.next().is_some_and(|program| String::from_utf8_lossy(program).contains("containerd-shim"));
        if is_shim && words.any(|word| word == socket.as_os_str().as_encoded_bytes()) {
            // It may have ended by itself meanwhile.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
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
