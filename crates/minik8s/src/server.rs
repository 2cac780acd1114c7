//! `minik8s server`: the control plane and, unless told otherwise, a node beside it.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use ipnet::Ipv4Net;
use jiff::Timestamp;
use minik8s_apiserver::{Config, LocalService, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames, write_kubeconfig};
use minik8s_store::{EtcdStore, RedbStore, Store};
use tokio::signal::unix::{SignalKind, signal};

use crate::flags::{ServerFlags, StoreFlag};
use crate::host;

pub async fn run(flags: ServerFlags) -> anyhow::Result<()> {
    let config = check(&flags)?;
    let data_dir = &flags.data_dir;
    std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make the data dir {}", data_dir.display()))?;
    let store = open_store(&flags.store, data_dir).await?;
    let names = ServingNames {
        host_name: host::name(),
        addresses: serving_addresses(&config),
        extra_names: Vec::new(),
        cluster_domain: config.cluster_domain.clone(),
        service_address: Some(config.service_address().into()),
    };
    let pki = Arc::new(Pki::load_or_create(&data_dir.join("pki"), &names, Timestamp::now())?);
    let server = Server::start(config.clone(), store, pki.clone()).await?;
    let kubeconfig = data_dir.join("admin.kubeconfig");
    let url = format!("https://{}", SocketAddr::new(local_address(flags.bind), server.address().port()));
    write_kubeconfig(&kubeconfig, &pki.admin_kubeconfig(&url))?;
    let node_name = flags.node_name.clone().unwrap_or_else(host::name);

    supervise("controllers", minik8s_controllers::run(client(&server, "system:kube-controller-manager"), controllers_config(&pki, &flags)));
    supervise("scheduler", minik8s_scheduler::run(client(&server, "system:kube-scheduler"), Default::default()));
    if !flags.no_agent {
        let node = crate::agent::config(&flags, &config, &node_name, &pki)?;
        supervise("agent", minik8s_kubelet::run(node, client(&server, &format!("system:node:{node_name}"))));
    }
    eprintln!("minik8s is ready at {url}\nTry: kubectl --kubeconfig {} get nodes", kubeconfig.display());
    wait_for_signal().await?;
    tracing::info!("stopping");
    server.stop().await;
    Ok(())
}
