//! The resolver beside the rules of Services, and what it knows.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::IpFamily;
use parking_lot::RwLock;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use crate::backends::{Backends, Key};
use crate::dns::{Resolver, Upstreams, Zone, follow_hosts, records};
use crate::proxy::{Balance, Frontend, Pick, Protocol, Route, Routes};
use crate::{Config, Dns};

/// After the node's address could not be listened on; whoever starts the network anew waits longer each time.
const RETRY: Duration = Duration::from_secs(5);

/// Ended when dropped.
pub struct Names {
    dns: Dns,
    /// Of each address of the node.
    endpoints: Vec<SocketAddr>,
    zone: Arc<RwLock<Zone>>,
    task: AbortOnDropHandle<()>,
    _hosts: Option<AbortOnDropHandle<()>>,
}

impl Names {
    /// Services work without names, too: `None` if there is no resolver; [`Names::retry_at`] then says when to try again.
    pub async fn start(config: &Config) -> Option<Self> {
        let dns = config.dns.clone()?;
        let zone = Arc::new(RwLock::new(Zone::new(&dns.domain)));
        let conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let upstreams = Upstreams::parse(&conf, &dns.addresses);
        // The rules of a former run lead to the same port: names work before the API server answers.
        let port = preferred_port(&config.instance);
        let (pods, metrics) = (config.cluster_cidr, config.metrics.dns.clone());
        let bound = Resolver::bind((&config.node_ips, port), pods, zone.clone(), upstreams, metrics).await;
        match bound.and_then(|resolver| Ok((resolver.endpoints()?, resolver))) {
            Ok((endpoints, resolver)) => {
                let task = AbortOnDropHandle::new(tokio::spawn(resolver.serve()));
                let addresses: Vec<IpAddr> = config.node_ips.clone();
                let hosts = config.hosts.clone().map(|hosts| follow_hosts(hosts, zone.clone(), addresses));
                let hosts = hosts.map(|task| AbortOnDropHandle::new(tokio::spawn(task)));
                Some(Names { dns, endpoints, zone, task, _hosts: hosts })
            }
            Err(error) => {
                error!(%error, "pods of this node cannot resolve names: cannot listen on {:?}", config.node_ips);
                None
            }
        }
    }

    /// When there should be a resolver that is not there.
    pub fn retry_at(names: Option<&Self>, config: &Config) -> Option<Instant> {
        (names.is_none() && config.dns.is_some()).then(|| Instant::now() + RETRY)
    }

    /// Waits for the end of the resolver, which is a fault; for ever if there is none.
    pub async fn ended(names: &mut Option<Self>) {
        match names {
            Some(names) => drop((&mut names.task).await),
            None => std::future::pending().await,
        }
    }

    pub fn update(&self, backends: &Backends, changed: &BTreeSet<Key>) {
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
    pub fn routes(&self, family: IpFamily) -> Routes {
        let endpoint = self.endpoints.iter().copied().find(|one| IpFamily::of(one.ip()) == family);
        let address = self.dns.addresses.iter().copied().find(|one| IpFamily::of(*one) == family);
        let (Some(endpoint), Some(address)) = (endpoint, address) else { return Routes::default() };
        let frontends = [Protocol::Tcp, Protocol::Udp].map(|protocol| {
            let inside = Balance { pick: Pick::Random, endpoints: [endpoint].into() };
            let frontend = Frontend::Address(address, protocol, 53);
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
