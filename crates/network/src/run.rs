//! Keeps the node's network in step with the API server, driven by its events.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, warn};

use crate::backends::{Backends, Key};
use crate::config::table_of;
use crate::dns::{Resolver, Upstreams, Zone, follow_hosts, records};
use crate::drain::{Drains, EndingPod};
use crate::health::HealthPorts;
use crate::pod_network::{self, Kernel, Owner};
use crate::proxy::{
    Balance, Book, Frontend, Nft, NftError, Pick, Protocol, Route, Routes, Table, forget_flows, plan_service,
    ruleset, stale_flows,
};
use crate::{Config, Dns, sysctl};

/// Events come in groups: a Service and its slices, the pods of a Deployment.
const GATHER: Duration = Duration::from_millis(5);
/// Until the next try after rules were refused.
const RETRY: Duration = Duration::from_secs(2);

#[derive(Debug, Error)]
pub enum RunError {
    #[error("Services cannot work on this node")]
    Nft(#[from] NftError),
}

/// Leads connections to Services until it is told to stop; the rules stay. Fails only if this machine cannot
/// have rules at all.
pub async fn run(
    client: kube::Client,
    config: Config,
    mut ending: mpsc::Receiver<EndingPod>,
) -> Result<(), RunError> {
    sysctl::prepare();
    let names = Names::start(&config).await;
    let mut proxy = Proxy::new(config);
    // Says at once, not at the first Service, that something is missing.
    proxy.nft.apply(&format!("table ip {}\n", proxy.config.table())).await?;
    let stop = proxy.config.stop.clone();
    let every = watcher::Config::default;
    let mut service_events =
        std::pin::pin!(watcher(Api::<Service>::all(client.clone()), every()).default_backoff());
    let mut slice_events =
        std::pin::pin!(watcher(Api::<EndpointSlice>::all(client.clone()), every()).default_backoff());
    let node_events = watcher(Api::<Node>::all(client.clone()), every()).default_backoff();
    let mut drains = Drains::new(client, &proxy.config.node_name);
    let pod_network_config = proxy.config.clone();
    let _pod_network = AbortOnDropHandle::new(tokio::spawn(async move {
        pod_network::follow(&pod_network_config, node_events).await;
    }));
    let mut health = HealthPorts::default();
    let mut backends = Backends::default();
    let mut due: Option<Instant> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            Some(event) = service_events.next() => match event {
                Ok(event) => backends.take_service(event),
                Err(error) => lost_sight(&error),
            },
            Some(event) = slice_events.next() => match event {
                Ok(event) => backends.take_slice(event),
                Err(error) => lost_sight(&error),
            },
            Some(pod) = ending.recv() => drains.add(pod),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                let changed = backends.take_changed();
                if let Some(names) = &names {
                    names.update(&backends, &changed);
                }
                health.update(&backends, &changed, &proxy.config.node_name);
                proxy.plan(&backends, &changed, names.as_ref());
                if let Err(error) = proxy.apply().await {
                    error!("cannot lead Services: {error:#}; trying again");
                    due = Some(Instant::now() + RETRY);
                }
            }
        }
        if backends.has_changed() && backends.is_complete() {
            due.get_or_insert_with(|| Instant::now() + GATHER);
        }
        if due.is_none() && backends.is_complete() {
            drains.rules_applied(&mut backends);
        }
    }
}

/// Removes the rules and routes of a stopped agent; where there are none it does nothing.
pub async fn tear_down(instance: &str) {
    if let Err(error) = Nft.delete_table(&table_of(instance)).await {
        warn!("cannot remove the rules of Services: {error}");
    }
    if let Err(error) = Kernel::default().clear(&Owner::of(instance)).await {
        warn!("cannot remove the routes to other nodes: {error}");
    }
}

fn lost_sight(error: &watcher::Error) {
    warn!(%error, "lost sight of Services or their endpoints; the rules stay as they are");
}

/// The resolver beside the proxy, ended with it.
struct Names {
    dns: Dns,
    endpoint: SocketAddrV4,
    zone: Arc<RwLock<Zone>>,
    _task: AbortOnDropHandle<()>,
    _hosts: Option<AbortOnDropHandle<()>>,
}

impl Names {
    /// Services work without names, too: `None` if there is no resolver.
    async fn start(config: &Config) -> Option<Self> {
        let dns = config.dns.clone()?;
        let zone = Arc::new(RwLock::new(Zone::new(&dns.domain)));
        let conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let upstreams = Upstreams::parse(&conf, dns.address.into());
        // The rules of a former run lead to the same port: names work before the API server answers.
        let port = preferred_port(&config.instance);
        let bound =
            Resolver::bind((config.node_ip, port), config.cluster_cidr, zone.clone(), upstreams).await;
        match bound.and_then(|resolver| Ok((resolver.port()?, resolver))) {
            Ok((port, resolver)) => {
                let endpoint = SocketAddrV4::new(config.node_ip, port);
                let task = AbortOnDropHandle::new(tokio::spawn(resolver.serve()));
                let hosts =
                    config.hosts.clone().map(|hosts| follow_hosts(hosts, zone.clone(), config.node_ip));
                let hosts = hosts.map(|task| AbortOnDropHandle::new(tokio::spawn(task)));
                Some(Names { dns, endpoint, zone, _task: task, _hosts: hosts })
            }
            Err(error) => {
                error!(%error, "pods of this node cannot resolve names: cannot listen on {}", config.node_ip);
                None
            }
        }
    }

    fn update(&self, backends: &Backends, changed: &BTreeSet<Key>) {
        let mut zone = self.zone.write();
        let domain = zone.domain().to_owned();
        for service in changed {
            let object = backends.service(service);
            let records = object.map(|object| records(object, backends.slices(service), &domain));
            zone.put(service, records.unwrap_or_default());
        }
        zone.set_complete();
    }

    /// The cluster's DNS address leads to this node's resolver, whatever a Service there says.
    fn routes(&self) -> Routes {
        let frontends = [Protocol::Tcp, Protocol::Udp].map(|protocol| {
            let inside = Balance { pick: Pick::Random, endpoints: [self.endpoint].into() };
            let frontend = Frontend::Address(self.dns.address, protocol, 53);
            (frontend, Route { inside, outside: None, only_from: None })
        });
        Routes { frontends: frontends.into(), ..Routes::default() }
    }
}

/// Below the range that the kernel gives to clients, and another one for each agent of a machine.
fn preferred_port(instance: &str) -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 10_000;
    let number = u32::from_str_radix(instance, 16).unwrap_or_default();
    (FIRST + number % COUNT) as u16
}

struct Proxy {
    config: Config,
    nft: Nft,
    book: Book,
    /// What the kernel has; `None` if that is not known.
    table: Option<Table>,
}

impl Proxy {
    fn new(config: Config) -> Self {
        Proxy { config, nft: Nft, book: Book::default(), table: None }
    }

    fn plan(&mut self, backends: &Backends, changed: &BTreeSet<Key>, names: Option<&Names>) {
        for service in changed {
            let object = backends.service(service);
            let slices = || backends.slices(service);
            let routes = object.map(|object| plan_service(object, slices(), &self.config.node_name));
            self.book.put(service, routes.unwrap_or_default());
        }
        if let Some(names) = names {
            // Before all Services, by name.
            self.book.put(&(String::new(), String::new()), names.routes());
        }
    }

    async fn apply(&mut self) -> Result<(), NftError> {
        let changes = self.book.take_changes();
        let started = Instant::now();
        let Some(mut table) = self.table.take() else {
            let routes = self.book.routes();
            let name = self.config.table();
            self.nft.apply(&ruleset(&routes, &name, self.config.cluster_cidr).to_string()).await?;
            debug!(frontends = routes.frontends.len(), took = ?started.elapsed(), "loaded the rules of Services");
            self.table = Some(Table::new(&name, &routes));
            return Ok(());
        };
        if !changes.is_empty() {
            self.nft.apply(&table.change(&changes).to_string()).await?;
            debug!(frontends = changes.frontends.len(), took = ?started.elapsed(), "changed the rules of Services");
        }
        self.table = Some(table);
        forget_flows(&stale_flows(&changes)).await;
        Ok(())
    }
}
