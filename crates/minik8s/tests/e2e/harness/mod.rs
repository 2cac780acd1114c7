//! What the areas share: servers and clusters of their own, the kubectl binaries of this machine, and clients that remember
//! what they were told.

pub mod cluster;
pub mod consistency;
pub mod control_plane;
#[path = "../../../../store/tests/etcd_server/mod.rs"]
#[allow(dead_code, reason = "the store's own tests ask more")]
pub mod etcd_server;
mod kubectl;
pub mod lab;
mod plain;
pub mod program;
pub mod ranges;
pub mod seed;
mod server;
pub mod shared;
pub mod verbs;
pub mod words;

pub use kubectl::{Kubectl, Output, installed, ours, run_to_end};
pub use plain::plain;
pub use server::Server;

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// A client with what is in this file, if it is there already.
pub async fn client(kubeconfig: &Path) -> Option<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).ok()?;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.ok()?;
    kube::Client::try_from(config).ok()
}
