//! `minik8s server`: the control plane and, unless told otherwise, a node beside it.

use std::fs::File;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use jiff::{SignedDuration, Timestamp};
use minik8s_api::Extension;
use minik8s_apiserver::{Config, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_auth::service_account_token::ObjectRef;
use minik8s_datadir::{LockError, Occupant};
use minik8s_meta::{IpFamily, nth_address};
use minik8s_runtime::{Caches, Gate, LeaderConfig, Leadership, Supervisor, TaskError, elect};
use minik8s_store::{EtcdStore, RedbStore, Store};
use nix::fcntl::Flock;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::authentication::Followed;
use crate::authority::ClusterAuthority;
use crate::authorization::FollowedAuthorizers;
use crate::cluster_settings::ClusterSettings;
use crate::encryption::Encrypted;
use crate::export::Exports;
use crate::features::ServerFeatures;
use crate::flags::{ServerFlags, StoreFlag};
use crate::mesh_switch::{self, Switch};
use crate::node::{self, Node};
use crate::node_certificate::ServingHere;
use crate::server_list::AdminKubeconfig;
use crate::store_trouble::StoreTrouble;
use crate::{
    address_ranges, encryption, etcd_flags, host, identity, join_token, registry_hosts, server_list,
};

/// Below this are all keys of a cluster in etcd.
pub const ETCD_PREFIX: &str = "/minik8s";

/// How long controllers may take to finish what they are doing when the server stops.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Why a server has ended, if not by a fault.
pub enum Ended {
    Told,
    /// The cluster's setting wants one with a mesh, or without.
    Switched(Option<Switch>),
}

pub async fn run(mut flags: ServerFlags) -> anyhow::Result<Ended> {
    let by_flag = flags.mesh;
    flags.mesh = mesh_switch::is_on(flags.mesh_setting, by_flag);
    let features = ServerFeatures::new(&flags.disable_feature, flags.mesh)?;
    let mut config = check(&flags)?;
    config.extension = features.extension();
    config.extension.audit = flags.audit.settings()?;
    config.extension.service_account_tokens = Some(flags.authentication.service_accounts.settings());
    let own_issuer = config.token_issuer();
    let issuers = flags.authentication.settle(&own_issuer, &mut config.extension)?;
    let authorizers = flags.authorization.settle(&mut config.extension)?;
    let exports = flags.machine.export.open()?;
    config.extension.tracer = exports.tracer.clone();
    // From here on by the name that the mount table knows it by.
    let prepared = minik8s_datadir::prepare(&flags.data_dir);
    let no_dir = || format!("cannot use the data dir {}", flags.data_dir.display());
    flags.data_dir = prepared.with_context(no_dir)?;
    let _lock = lock(&flags.data_dir)?;
    if !flags.no_agent {
        node::check_ranges(&flags.data_dir, &flags.cluster_cidr, Some(&flags.service_cidr)).await?;
    }
    let advertised = config.advertise;
    let data_dir = &flags.data_dir;
    let trouble = StoreTrouble::default();
    let store = trouble.watch(open_store(&flags).await?);
    let (store, encrypted) = encryption::wrap(store, flags.encryption_provider_config.as_deref()).await?;
    let names = ServingNames {
        host_name: host::name(),
        addresses: host::addresses(),
        extra_names: Vec::new(),
        cluster_domain: config.cluster_domain.clone(),
        service_address: Some(config.service_address()),
    };
    let pki = Arc::new(identity::settle(&*store, &data_dir.join("pki"), &names).await?);
    let mut server = Server::start(config, store.clone(), pki.clone()).await?;
    let port = server.address().port();
    let url = format!("https://{}", SocketAddr::new(reachable(bind(&flags)), port));
    let reached = format!("https://{}", SocketAddr::new(advertised, port));
    let path = data_dir.join("admin.kubeconfig");
    let kubeconfig = AdminKubeconfig { pki: pki.clone(), path, url: url.clone(), own: reached.clone() };
    kubeconfig.write(&[])?;
    let (stop, resign) = (CancellationToken::new(), CancellationToken::new());
    let (leadership, mut election) = join_election(&flags, &server, &resign);
    let mut parts = Supervisor::new(stop.clone());
    parts.require("the store", lives(end_of_store(store.clone(), stop.clone())));
    follow_files(&mut parts, encrypted, (issuers, authorizers), &stop);
    let keep = identity::keep(store, pki.clone(), server.token_issuer(), stop.clone());
    parts.require("the keeper of the cluster's keys", lives(keep));
    run_controllers(&mut parts, &flags, (&server, trouble), features, &pki, (&leadership, &stop));
    exports.run(&mut parts, &stop);
    export_events(&mut parts, &exports, &server, &leadership, &stop);
    let settings = settings(&flags);
    let publisher = client(&server, "system:apiserver");
    settings.publish(publisher.clone()).await.context("cannot publish the cluster's settings")?;
    let (meshed, has_v4) = ((by_flag, flags.mesh), flags.cluster_cidr.v4().is_some());
    let switched = mesh_switch::wanted(publisher.clone(), meshed, has_v4, stop.clone());
    join_token::ensure(publisher.clone(), &pki.ca_pin(), data_dir).await?;
    let shown = kubeconfig.path.clone();
    if has_peers(&flags) {
        let (live, kubeconfig) = (server.live(), Arc::new(kubeconfig));
        parts.restart("the publisher of the servers' addresses", move || {
            lives(server_list::publish(publisher.clone(), live.clone(), kubeconfig.clone()))
        });
    }
    if !flags.no_agent {
        run_node(&mut parts, &flags, (settings, exports), &server, &pki, &stop)?;
    }
    say_ready(&url, &shown, data_dir);
    let ended = tokio::select! {
        signal = wait_for_signal() => signal.context("cannot wait for signals").map(|()| Ended::Told),
        setting = switched => Ok(Ended::Switched(setting)),
        ended = parts.ended() => Err(ended.into()),
        failed = server.failed() => Err(anyhow!(failed)),
        ended = end_of(&mut election) => Err(ended),
    };
    log_end(&ended);
    finish(parts, &stop, (resign, election)).await;
    server.stop().await;
    ended
}

/// Not by `eprintln!`, which panics where nothing can be written: the log may be on a full disk.
fn say_ready(url: &str, kubeconfig: &Path, data_dir: &Path) {
    let ready =
        format!("minik8s is ready at {url}\nTry: kubectl --kubeconfig {} get nodes", kubeconfig.display());
    let join = format!("minik8s token create --data-dir {}", data_dir.display());
    let _ = writeln!(std::io::stderr(), "{ready}\nTo add a machine, type here: {join}");
}

fn log_end(ended: &anyhow::Result<Ended>) {
    match ended {
        Ok(Ended::Told) => tracing::info!("stopping"),
        Ok(Ended::Switched(_)) => {
            tracing::info!("starting anew, as the cluster's setting of the mesh is another")
        }
        Err(error) => tracing::error!("stopping, because a part of the server is gone: {error:#}"),
    }
}

/// Work in progress is finished, but nothing may keep the server from ending.
async fn finish(
    parts: Supervisor,
    stop: &CancellationToken,
    (resign, election): (CancellationToken, Option<JoinHandle<()>>),
) {
    stop.cancel();
    if tokio::time::timeout(TIMEOUT, parts.finish()).await.is_err() {
        tracing::warn!("controllers were still busy and were cut off");
    }
    // Only now may another server lead.
    resign.cancel();
    if let Some(election) = election.filter(|election| !election.is_finished()) {
        let _ = tokio::time::timeout(TIMEOUT, election).await;
    }
}

/// Where a collector takes logs.
fn export_events(
    parts: &mut Supervisor,
    exports: &Exports,
    server: &Server,
    leadership: &Leadership,
    stop: &CancellationToken,
) {
    let Some(queue) = exports.logs.clone() else { return };
    let (client, leads, stop) = (client(server, "system:apiserver"), leadership.changes(), stop.clone());
    parts.restart("the export of events", move || {
        let follow = minik8s_monitoring::export_events;
        lives(follow(client.clone(), queue.clone(), leads.clone(), stop.clone()))
    });
}

/// Takes over what is changed in files while the server runs.
fn follow_files(
    parts: &mut Supervisor,
    encrypted: Encrypted,
    (issuers, authorizers): (Option<Followed>, Option<FollowedAuthorizers>),
    stop: &CancellationToken,
) {
    if let Some((path, store)) = encrypted {
        let followed = encryption::follow(path, store, stop.clone());
        parts.require("the encryption configuration", lives(followed));
    }
    if let Some(issuers) = issuers {
        parts.require("the issuers of users", lives(issuers.run(stop.clone())));
    }
    if let Some(authorizers) = authorizers {
        parts.require("the authorization configuration", lives(authorizers.run(stop.clone())));
    }
}

/// A task that returns nothing because it is not meant to return.
pub async fn lives(task: impl Future<Output = ()>) -> Result<(), TaskError> {
    task.await;
    Ok(())
}

/// Or until the server stops.
async fn end_of_store(store: Arc<dyn Store>, stop: CancellationToken) {
    tokio::select! {
        () = store.ended() => {}
        () = stop.cancelled() => {}
    }
}

/// The data dir is this server's; a disk that is full is no reason not to start.
fn lock(data_dir: &Path) -> Result<Option<Flock<File>>, LockError> {
    match minik8s_datadir::lock(data_dir, Occupant::Server) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Held { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "whoever takes this node apart will not know that a server runs");
            Ok(None)
        }
    }
}

/// Waits for the end of the election, without which this server would never lead again.
async fn end_of(election: &mut Option<JoinHandle<()>>) -> anyhow::Error {
    match election {
        Some(election) => match election.await {
            Ok(()) => anyhow!("the election has ended"),
            Err(error) => anyhow!("the election has failed: {error}"),
        },
        None => std::future::pending().await,
    }
}

/// Several servers can share etcd, and then one of them leads; a file belongs to one.
fn has_peers(flags: &ServerFlags) -> bool {
    matches!(flags.store, StoreFlag::Etcd(_))
}

/// Takes part in the election of the server whose controllers and scheduler work, if there can be others.
fn join_election(
    flags: &ServerFlags,
    server: &Server,
    resign: &CancellationToken,
) -> (Leadership, Option<JoinHandle<()>>) {
    if !has_peers(flags) {
        return (Leadership::always(), None);
    }
    let own = server.live().borrow().first().map(ToString::to_string).unwrap_or_default();
    let identity = format!("{}_{own}_{}", host::name(), uuid::Uuid::new_v4());
    let config = LeaderConfig::new("minik8s-leader", &identity);
    let (leadership, election) = elect(client(server, "system:apiserver"), config, resign.clone());
    let mut changes = leadership.changes();
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let text = if *changes.borrow() { "this server leads now" } else { "this server leads no more" };
            tracing::info!("{text}");
        }
    });
    (leadership, Some(election))
}

fn run_controllers(
    parts: &mut Supervisor,
    flags: &ServerFlags,
    (server, trouble): (&Server, StoreTrouble),
    features: ServerFeatures,
    pki: &Arc<Pki>,
    (leadership, stop): (&Leadership, &CancellationToken),
) {
    let gated = |user: &str| {
        let service = server.local(User::authenticated(user, groups(user)));
        kube::Client::new(Gate::new(service, leadership.clone()), "default")
    };
    let controllers = gated("system:kube-controller-manager");
    let caches = Caches::new(controllers.clone(), stop.clone());
    let config = minik8s_controllers::Config {
        stop: stop.clone(),
        leads: leadership.changes(),
        caches: Some(caches.clone()),
        root_ca: Some(pki.ca_pem()),
        token_signer: Some(token_signer(server)),
        cluster_cidr: Some(flags.cluster_cidr),
        authority: Some(Arc::new(ClusterAuthority { pki: pki.clone(), live: server.live() })),
        node_grace: SignedDuration::from_secs(flags.node_grace.into()),
        store_trouble: Arc::new(move || trouble.last()),
        records: Some(server.records()),
        data_dir: Some(flags.data_dir.clone()),
        features: features.list,
    };
    parts.require("the controllers' loop", lives(minik8s_controllers::run(controllers, config)));
    let scheduling = minik8s_scheduler::Config {
        caches: Some(caches),
        metrics: Some(features.history),
        leads: leadership.changes(),
        ..Default::default()
    };
    let schedule = schedule(gated("system:kube-scheduler"), scheduling, stop.clone());
    parts.require("the scheduler", lives(schedule));
}

/// A new scheduler for each time that this server leads: what one has decided in the past is no base for the next.
async fn schedule(client: kube::Client, config: minik8s_scheduler::Config, stop: CancellationToken) {
    let mut leads = config.leads.clone();
    while !stop.is_cancelled() {
        let term = stop.child_token();
        let config = minik8s_scheduler::Config { stop: term.clone(), ..config.clone() };
        let running = minik8s_scheduler::run(client.clone(), config);
        let deposed = async {
            let begun = leads.wait_for(|leads| *leads).await.is_ok();
            if !begun || leads.wait_for(|leads| !*leads).await.is_err() {
                // Nobody is left who could depose it.
                std::future::pending::<()>().await;
            }
            term.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = running => {}
            () = deposed => {}
        }
    }
}

fn run_node(
    parts: &mut Supervisor,
    flags: &ServerFlags,
    of_cluster: (ClusterSettings, Exports),
    server: &Server,
    pki: &Arc<Pki>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let node = node_here(parts, flags, of_cluster, pki)?;
    let (dir, name, pki, live) = (flags.data_dir.clone(), node.name.clone(), pki.clone(), server.live());
    parts.restart("the way to the registry", move || {
        let kept = registry_hosts::keep_beside_server(dir.clone(), name.clone(), pki.clone(), live.clone());
        async move { Ok(kept.await?) }
    });
    let client = client(server, &format!("system:node:{}", node.name));
    let features = node.features(&flags.disable_feature);
    let access = node.access(client, &features, stop);
    let stop = stop.clone();
    parts.require("the node beside the server", async move {
        tokio::select! {
            ended = node.run(access, features, stop.clone()) => Ok(ended?),
            () = stop.cancelled() => Ok(()),
        }
    });
    Ok(())
}

/// This machine's node.
fn node_here(
    parts: &mut Supervisor,
    flags: &ServerFlags,
    (settings, exports): (ClusterSettings, Exports),
    pki: &Arc<Pki>,
) -> anyhow::Result<Node> {
    let machine = &flags.machine;
    let description = machine.description()?;
    let name = machine.node_name.clone().or(description.name.clone()).unwrap_or_else(host::name);
    let addresses = machine.addresses(&flags.cluster_cidr, |family| address_here(bind(flags), family))?;
    let certificate = Arc::new(ServingHere::new(pki.clone(), &name, &addresses, Timestamp::now())?);
    let serving = certificate.serving();
    parts.restart("the renewal of the node's certificate", move || lives(certificate.clone().keep_fresh()));
    Ok(Node {
        serving,
        data_dir: flags.data_dir.clone(),
        name,
        addresses,
        port: machine.node_port,
        api_port: Some(flags.port),
        cri_endpoint: machine.cri_endpoint.clone(),
        backend: machine.network_backend,
        router: machine.router.clone(),
        housekeeping: machine.housekeeping.clone(),
        exports,
        description,
        settings,
    })
}

fn settings(flags: &ServerFlags) -> ClusterSettings {
    ClusterSettings {
        cluster_cidr: flags.cluster_cidr,
        // By custom the tenth address of Services.
        dns_addresses: flags.service_cidr.iter().filter_map(|range| nth_address(range, 10)).collect(),
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
/// A node gets what it would get on a machine of its own.
fn groups(user: &str) -> &'static [&'static str] {
    match user {
        node if node.starts_with("system:node:") => &["system:nodes"],
        _ => &["system:masters"],
    }
}

/// The flags as a configuration, or what is wrong with them together.
fn check(flags: &ServerFlags) -> anyhow::Result<Config> {
    address_ranges::check(&flags.cluster_cidr, &flags.service_cidr)?;
    mesh_switch::check(flags.mesh, &flags.cluster_cidr)?;
    let bind = bind(flags);
    let primary = IpFamily::of(flags.service_cidr.primary().addr());
    let is_specific = !bind.is_unspecified() && !bind.is_loopback();
    if is_specific && IpFamily::of(bind) != primary {
        bail!(
            "--bind {bind} is no address of {primary}, the primary family of --service-cidr {}: pods could not reach the \
             server through the Service kubernetes; name a range of its family first, or another address",
            flags.service_cidr
        );
    }
    Ok(Config {
        bind: SocketAddr::new(bind, flags.port),
        advertise: address_here(bind, primary).unwrap_or(host::loopback(primary)),
        service_cidr: flags.service_cidr,
        cluster_domain: flags.cluster_domain.clone(),
        token_auth_file: flags.token_auth_file.clone(),
        allow_external_ips: flags.allow_external_ips,
        kinds: minik8s_kinds::all(),
        has_peers: has_peers(flags),
        extension: Extension::default(),
    })
}

/// Where the server listens. On `::` it is reached by IPv4, too; but a machine may be without IPv6.
fn bind(flags: &ServerFlags) -> IpAddr {
    let has_v6 = flags.service_cidr.v6().is_some() || flags.cluster_cidr.v6().is_some();
    let all = if has_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    flags.bind.unwrap_or(all)
}

/// An address of that family by which others reach a server, and the node beside it, that listens there.
fn address_here(bind: IpAddr, family: IpFamily) -> Option<IpAddr> {
    match bind {
        bind if bind.is_loopback() && IpFamily::of(bind) != family => Some(host::loopback(family)),
        bind if !bind.is_unspecified() && IpFamily::of(bind) == family => Some(bind),
        _ => host::address_of(family),
    }
}

/// Where a client on this machine reaches a server bound to that address.
fn reachable(bind: IpAddr) -> IpAddr {
    if bind.is_unspecified() { host::loopback(IpFamily::of(bind)) } else { bind }
}

async fn open_store(flags: &ServerFlags) -> anyhow::Result<Arc<dyn Store>> {
    let options = flags.history.options();
    match &flags.store {
        StoreFlag::Redb => Ok(RedbStore::open(flags.data_dir.join("store.redb"), options)?),
        StoreFlag::Etcd(urls) => {
            let address = flags.etcd.address(urls)?;
            etcd_flags::warn_if_open(&address);
            let store = EtcdStore::connect(&address, ETCD_PREFIX, options).await;
            Ok(store.with_context(|| format!("cannot use etcd at {address}"))?)
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
