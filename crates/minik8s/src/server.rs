//! `minik8s server`: the control plane and, unless told otherwise, a node beside it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use ipnet::Ipv4Net;
use jiff::{SignedDuration, Timestamp};
use minik8s_apiserver::{Config, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames, write_kubeconfig};
use minik8s_auth::service_account_token::ObjectRef;
use minik8s_runtime::Caches;
use minik8s_store::{EtcdStore, Options, RedbStore, Store};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::authority::ClusterAuthority;
use crate::cluster_settings::ClusterSettings;
use crate::flags::{ServerFlags, StoreFlag};
use crate::node::{self, Node};
use crate::{host, join_token};

/// How long controllers may take to finish what they are doing when the server stops.
const PATIENCE: Duration = Duration::from_secs(2);

pub async fn run(flags: ServerFlags) -> anyhow::Result<()> {
    let config = check(&flags)?;
    if !flags.no_agent {
        node::check_ranges(&flags.data_dir, flags.cluster_cidr, Some(flags.service_cidr)).await?;
    }
    let advertised = config.advertise;
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
            token_signer: Some(token_signer(&server)),
            cluster_range: Some(flags.cluster_cidr),
            authority: Some(Arc::new(ClusterAuthority(pki.clone()))),
            node_grace: SignedDuration::from_secs(flags.node_grace.into()),
            figures: server.figures(),
            decisions: server.decisions(),
            ..Default::default()
        },
    ));
    parts.spawn(minik8s_scheduler::run(
        client(&server, "system:kube-scheduler"),
        minik8s_scheduler::Config {
            stop: stop.clone(),
            caches: Some(caches),
            figures: Some(server.figures()),
            ..Default::default()
        },
    ));
    let settings = settings(&flags);
    let publisher = client(&server, "system:apiserver");
    settings.publish(publisher.clone()).await.context("cannot publish the cluster's settings")?;
    let token = join_token::ensure(publisher, &pki.ca_pin(), data_dir).await?;
    let reached = format!("https://{}", SocketAddr::new(advertised, server.address().port()));
    let join = join_token::command(&reached, &token);
    if !flags.no_agent {
        let node = node_here(&flags, settings, &pki)?;
        let node_client = client(&server, &format!("system:node:{}", node.name));
        let network_client = client(&server, "system:kube-proxy");
        let stop = stop.clone();
        tokio::spawn(async move {
            if let Err(error) = node.run(node_client, network_client, stop).await {
                tracing::error!("{error:#}");
            }
        });
    }
    eprintln!("minik8s is ready at {url}\nTry: kubectl --kubeconfig {} get nodes", kubeconfig.display());
    eprintln!("To add a machine, run there: {join}");
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

/// This machine's node.
fn node_here(flags: &ServerFlags, settings: ClusterSettings, pki: &Pki) -> anyhow::Result<Node> {
    let machine = &flags.machine;
    let description = machine.description()?;
    let name = machine.node_name.clone().or(description.name.clone()).unwrap_or_else(host::name);
    let bound = if flags.bind.is_unspecified() { host::address() } else { flags.bind };
    let address = machine.node_ip.unwrap_or(bound);
    Ok(Node {
        serving: node::serving_here(pki, &name, address)?,
        data_dir: std::path::absolute(&flags.data_dir).context("--data-dir")?,
        name,
        address,
        port: machine.node_port,
        cri_endpoint: machine.cri_endpoint.clone(),
        backend: machine.network_backend,
        router: machine.router.clone(),
        housekeeping: machine.housekeeping.clone(),
        description,
        settings,
    })
}

fn settings(flags: &ServerFlags) -> ClusterSettings {
    let services = flags.service_cidr;
    ClusterSettings {
        cluster_cidr: flags.cluster_cidr,
        // By custom the tenth address of Services.
        dns_address: services.hosts().nth(9).unwrap_or(services.addr()),
        domain: flags.cluster_domain.clone(),
        node_grace: Duration::from_secs(flags.node_grace.into()),
    }
}

/// The API without a socket, as one of the cluster's own components.
fn client(server: &Server, user: &str) -> kube::Client {
    kube::Client::new(server.local(User::authenticated(user, groups(user))), "default")
}

/// Tokens for Secrets, by the key that the API server trusts.
fn token_signer(server: &Server) -> minik8s_controllers::service_account::Signer {
    let issuer = server.token_issuer();
    Arc::new(move |account, uid, secret| {
        let owner = ObjectRef { name: account.name.clone(), uid: uid.to_owned() };
        let token = issuer.issue_for_secret(&account.namespace, &owner, secret);
        token.inspect_err(|error| tracing::warn!(%account, %error, "no token for its Secret")).ok()
    })
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
