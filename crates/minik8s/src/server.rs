//! `minik8s server`: the control plane and, unless told otherwise, a node beside it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use ipnet::Ipv4Net;
use jiff::Timestamp;
use minik8s_apiserver::{Config, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames, write_kubeconfig};
use minik8s_runtime::Caches;
use minik8s_store::{EtcdStore, Options, RedbStore, Store};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::flags::{ServerFlags, StoreFlag};
use crate::{agent, host};

/// How long controllers may take to finish what they are doing when the server stops.
const PATIENCE: Duration = Duration::from_secs(2);

pub async fn run(flags: ServerFlags) -> anyhow::Result<()> {
    let config = check(&flags)?;
    let data_dir = &flags.data_dir;
    let no_dir = || format!("cannot make the data dir {}", data_dir.display());
    std::fs::create_dir_all(data_dir).with_context(no_dir)?;
    let store = open_store(&flags.store, data_dir).await?;
    let names = ServingNames {
        host_name: host::name(),
        addresses: host::addresses(),
        extra_names: Vec::new(),
        cluster_domain: config.cluster_domain.clone(),
        service_address: Some(config.service_address().into()),
    };
    let pki = Arc::new(Pki::load_or_create(&data_dir.join("pki"), &names, Timestamp::now())?);
    let server = Server::start(config, store, pki.clone()).await?;
    let kubeconfig = data_dir.join("admin.kubeconfig");
    let url = format!("https://{}", SocketAddr::new(reachable(flags.bind), server.address().port()));
    write_kubeconfig(&kubeconfig, &pki.admin_kubeconfig(&url))?;
    let stop = CancellationToken::new();
    let mut parts = JoinSet::new();
    let controllers = client(&server, "system:kube-controller-manager");
    let caches = Caches::new(controllers.clone(), stop.clone());
    parts.spawn(minik8s_controllers::run(
        controllers,
        minik8s_controllers::Config {
            stop: stop.clone(),
            caches: Some(caches.clone()),
            root_ca: Some(pki.ca_pem()),
            cluster_range: Some(flags.cluster_cidr),
            ..Default::default()
        },
    ));
    parts.spawn(minik8s_scheduler::run(
        client(&server, "system:kube-scheduler"),
        minik8s_scheduler::Config { stop: stop.clone(), caches: Some(caches), ..Default::default() },
    ));
    if !flags.no_agent {
        let node_name = flags.node_name.clone().unwrap_or_else(host::name);
        let node = agent::config(&flags, &node_name, &pki)?;
        let node_client = client(&server, &format!("system:node:{node_name}"));
        let network = agent::network(&flags, &node, stop.clone());
        let network_client = client(&server, "system:kube-proxy");
        tokio::spawn(async move {
            if let Err(error) = minik8s_network::run(network_client, network).await {
                tracing::error!("the node has no Services: {error:#}", error = anyhow::Error::from(error));
            }
        });
        tokio::spawn(async move {
            if let Err(error) = minik8s_kubelet::run(node, node_client).await {
                tracing::error!("the node cannot run: {error:#}", error = anyhow::Error::from(error));
            }
        });
    }
    eprintln!("minik8s is ready at {url}\nTry: kubectl --kubeconfig {} get nodes", kubeconfig.display());
    wait_for_signal().await?;
    tracing::info!("stopping");
    stop.cancel();
    // Work in progress is finished, but nothing may keep the server from ending.
    let (finished, ()) = tokio::join!(tokio::time::timeout(PATIENCE, parts.join_all()), server.stop());
    if finished.is_err() {
        tracing::warn!("controllers were still busy and were cut off");
    }
    Ok(())
}

/// The API without a socket, as one of the cluster's own components.
fn client(server: &Server, user: &str) -> kube::Client {
    kube::Client::new(server.local(User::authenticated(user, groups(user))), "default")
}

/// Controllers and scheduler live in the process that holds the store: bounding them would bound nothing.
/// A node and its network get what they would get on a machine of their own.
fn groups(user: &str) -> &'static [&'static str] {
    match user {
        "system:kube-proxy" => &[],
        node if node.starts_with("system:node:") => &["system:nodes"],
        _ => &["system:masters"],
    }
}

/// The flags as a configuration, or what is wrong with them together.
fn check(flags: &ServerFlags) -> anyhow::Result<Config> {
    let overlap = |a: Ipv4Net, b: Ipv4Net| a.contains(&b.network()) || b.contains(&a.network());
    if overlap(flags.service_cidr, flags.cluster_cidr) {
        bail!(
            "--service-cidr {} and --cluster-cidr {} overlap: give each a range of its own",
            flags.service_cidr,
            flags.cluster_cidr
        );
    }
    let advertise = if flags.bind.is_unspecified() { host::address() } else { flags.bind };
    Ok(Config {
        bind: SocketAddr::new(flags.bind, flags.port),
        advertise,
        service_cidr: flags.service_cidr,
        cluster_domain: flags.cluster_domain.clone(),
        token_auth_file: flags.token_auth_file.clone(),
    })
}

/// Where a client on this machine reaches a server bound to that address.
fn reachable(bind: IpAddr) -> IpAddr {
    if bind.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bind }
}

async fn open_store(flag: &StoreFlag, data_dir: &Path) -> anyhow::Result<Arc<dyn Store>> {
    match flag {
        StoreFlag::Redb => Ok(RedbStore::open(data_dir.join("store.redb"), Options::default())?),
        StoreFlag::Etcd(urls) => {
            let store = EtcdStore::connect(urls, "/minik8s", Options::default()).await;
            Ok(store.with_context(|| format!("cannot use etcd at {}", urls.join(", ")))?)
        }
    }
}

pub async fn wait_for_signal() -> std::io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}
