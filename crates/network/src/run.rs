//! Keeps the node's table in step with the API server, driven by its events.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, warn};

use crate::config::table_of;
use crate::dns::{Resolver, Upstreams, Zone, zone};
use crate::proxy::{
    Balance, Frontend, Nft, NftError, Pick, Protocol, Route, Routes, Ruleset, diff, forget_flows, plan,
    ruleset, stale_flows,
};
use crate::watches::Objects;
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
pub async fn run(client: kube::Client, config: Config) -> Result<(), RunError> {
    sysctl::prepare();
    let names = Names::start(&config).await;
    let mut proxy = Proxy { config, nft: Nft, applied: None };
    // Says at once, not at the first Service, that something is missing.
    proxy.nft.apply(&format!("table ip {}\n", proxy.config.table())).await?;
    let stop = proxy.config.stop.clone();
    let every = watcher::Config::default;
    let mut service_events =
        std::pin::pin!(watcher(Api::<Service>::all(client.clone()), every()).default_backoff());
    let mut slice_events =
        std::pin::pin!(watcher(Api::<EndpointSlice>::all(client), every()).default_backoff());
    let (mut services, mut slices) = (Objects::<Service>::default(), Objects::<EndpointSlice>::default());
    let mut due: Option<Instant> = None;
    loop {
        let changed = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            Some(event) = service_events.next() => take(&mut services, event),
            Some(event) = slice_events.next() => take(&mut slices, event),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                let mut routes = plan(services.iter(), slices.iter(), &proxy.config.node_name);
                if let Some(names) = &names {
                    names.update(zone(services.iter(), slices.iter(), &names.dns.domain));
                    names.lead_there(&mut routes);
                }
                if let Err(error) = proxy.apply(routes).await {
                    error!("cannot lead Services: {error:#}; trying again");
                    due = Some(Instant::now() + RETRY);
                }
                false
            }
        };
        // Half of the objects would take away rules that a former run of this agent rightly made.
        if changed && services.is_complete() && slices.is_complete() {
            due.get_or_insert_with(|| Instant::now() + GATHER);
        }
    }
}

/// Removes the rules of a stopped agent; where there are none it does nothing.
pub async fn tear_down(instance: &str) {
    if let Err(error) = Nft.delete_table(&table_of(instance)).await {
        warn!("cannot remove the rules of Services: {error}");
    }
}

fn take<K: kube::ResourceExt>(
    objects: &mut Objects<K>,
    event: Result<watcher::Event<K>, watcher::Error>,
) -> bool {
    match event {
        Ok(event) => objects.take(event),
        Err(error) => {
            warn!(%error, "lost sight of Services or their endpoints; the rules stay as they are");
            false
        }
    }
}

/// The resolver beside the proxy, ended with it.
struct Names {
    dns: Dns,
    endpoint: SocketAddrV4,
    zone: watch::Sender<Arc<Zone>>,
    _task: AbortOnDropHandle<()>,
}

impl Names {
    /// Services work without names, too: `None` if there is no resolver.
    async fn start(config: &Config) -> Option<Self> {
        let dns = config.dns.clone()?;
        let (sender, receiver) = watch::channel(Arc::new(zone([], [], &dns.domain)));
        let conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let upstreams = Upstreams::parse(&conf, dns.address.into());
        let bound = Resolver::bind(config.node_ip, config.cluster_cidr, receiver, upstreams).await;
        match bound.and_then(|resolver| Ok((resolver.port()?, resolver))) {
            Ok((port, resolver)) => {
                let endpoint = SocketAddrV4::new(config.node_ip, port);
                let task = AbortOnDropHandle::new(tokio::spawn(resolver.serve()));
                Some(Names { dns, endpoint, zone: sender, _task: task })
            }
            Err(error) => {
                error!(%error, "pods of this node cannot resolve names: cannot listen on {}", config.node_ip);
                None
            }
        }
    }

    fn update(&self, zone: Zone) {
        self.zone.send_replace(Arc::new(zone));
    }

    /// The cluster's DNS address leads to this node's resolver, whatever a Service there says.
    fn lead_there(&self, routes: &mut Routes) {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let inside = Balance { pick: Pick::Random, endpoints: [self.endpoint].into() };
            let frontend = Frontend::Address(self.dns.address, protocol, 53);
            routes.frontends.insert(frontend, Route { inside, outside: None });
        }
    }
}

struct Proxy {
    config: Config,
    nft: Nft,
    /// What the kernel has; `None` if that is not known.
    applied: Option<(Routes, Ruleset)>,
}

impl Proxy {
    async fn apply(&mut self, routes: Routes) -> Result<(), NftError> {
        let rules = ruleset(&routes, &self.config.table(), self.config.cluster_cidr);
        let before = self.applied.take();
        let started = Instant::now();
        match before.as_ref().and_then(|(_, before)| diff(before, &rules)) {
            Some(change) if change.is_empty() => {}
            Some(change) => self.nft.apply(&change.to_string()).await?,
            None => self.nft.apply(&rules.to_string()).await?,
        }
        debug!(frontends = routes.frontends.len(), took = ?started.elapsed(), "applied the rules of Services");
        if let Some((before, _)) = before {
            forget_flows(&stale_flows(&before, &routes)).await;
        }
        self.applied = Some((routes, rules));
        Ok(())
    }
}
