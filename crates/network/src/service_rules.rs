//! The rules of Services in the kernel, kept in step with what is known of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use tracing::debug;

use crate::Config;
use crate::backends::{Backends, Key};
use crate::localnet::Localnet;
use crate::metrics::{Extent, Metrics};
use crate::names::Names;
use crate::pod_network::{Kernel, Owner};
use crate::ports::{Port, keep_own, listened, node_ports};
use crate::proxy::{
    Book, Nft, NftError, Routes, Table, diff, forget_flows, plan_service, ruleset, stale_flows,
    stale_flows_between,
};
use crate::reports::Reports;

pub struct ServiceRules {
    node: String,
    table_name: String,
    cluster: Ipv4Net,
    nft: Nft,
    book: Book,
    /// Services whose routes are to be looked at again.
    waiting: BTreeSet<Key>,
    /// What the kernel has; `None` if that is not known.
    table: Option<Table>,
    /// What is there could not be changed into what is wanted.
    must_replace: bool,
    own_ports: BTreeSet<u16>,
    /// Ports of the node by the Services that take them: looked at when they change.
    node_ports: BTreeMap<Key, BTreeSet<Port>>,
    /// How many endpoints each Service has that has rules, and all together.
    sizes: BTreeMap<Key, usize>,
    endpoints: usize,
    reports: Arc<Reports>,
    metrics: Arc<Metrics>,
    localnet: Localnet,
    /// Those that lead to pods.
    interfaces: Vec<String>,
}

impl ServiceRules {
    pub async fn new(config: &Config, reports: Arc<Reports>) -> Self {
        // Without an uplink there are no other nodes.
        let uplink = Kernel::default().uplink(config.node_ip).await.ok().map(|uplink| uplink.device);
        let own = [config.bridge.clone(), Owner::of(&config.instance).tunnel];
        ServiceRules {
            node: config.node_name.clone(),
            table_name: config.table(),
            cluster: config.cluster_cidr,
            nft: Nft,
            book: Book::default(),
            waiting: BTreeSet::new(),
            table: None,
            must_replace: false,
            own_ports: config.own_ports.clone(),
            node_ports: BTreeMap::new(),
            sizes: BTreeMap::new(),
            endpoints: 0,
            reports,
            metrics: config.metrics.clone(),
            localnet: Localnet::of(&config.instance),
            interfaces: own.into_iter().chain(uplink).filter(|name| name != "lo").collect(),
        }
    }

    /// Whether the kernel has no rules of a former run. Fails where there can be no rules at all.
    pub async fn is_bare(&self) -> Result<bool, NftError> {
        Ok(self.nft.list(&self.table_name).await?.is_empty())
    }

    pub fn note(&mut self, changed: BTreeSet<Key>) {
        self.waiting.extend(changed);
    }

    /// Makes the kernel's rules follow what was noted, and counts how that went.
    pub async fn apply(&mut self, backends: &mut Backends, names: Option<&Names>) -> Result<(), NftError> {
        let started = Instant::now();
        let extent = if self.table.is_some() { Extent::Partial } else { Extent::Full };
        self.plan(backends, names);
        let applied = self.change().await;
        match &applied {
            Ok(()) => {
                self.open_loopback();
                let (rules, now) = (&self.metrics.rules, Timestamp::now());
                rules.synced(extent, started.elapsed(), now);
                backends.take_triggers().into_iter().for_each(|since| rules.programmed(since, now));
                rules.set_sizes(self.sizes.len(), self.endpoints);
            }
            Err(_) => self.metrics.rules.failed(),
        }
        applied
    }

    /// The rules are there that make it safe. Pods' bridge comes with the first of them.
    fn open_loopback(&self) {
        if let Err(error) = self.localnet.allow(&self.interfaces) {
            let message =
                format!("ports of Services do not answer on 127.0.0.1: cannot set route_localnet: {error}");
            self.reports.about_node("KernelSettingMissing", message);
        }
    }

    fn plan(&mut self, backends: &Backends, names: Option<&Names>) {
        for service in std::mem::take(&mut self.waiting) {
            let object = backends.service(&service);
            let mut routes = object.map(|object| plan_service(object, backends.slices(&service), &self.node));
            if let (Some(object), Some(routes)) = (object, &mut routes) {
                self.check_ports(&service, object, routes);
            }
            let routes = routes.unwrap_or_default();
            self.note_size(&service, &routes);
            self.book.put(&service, routes);
        }
        if let Some(names) = names {
            // Before all Services, by name.
            self.book.put(&(String::new(), String::new()), names.routes());
        }
    }

    fn note_size(&mut self, service: &Key, routes: &Routes) {
        let before = match routes.frontends.is_empty() {
            true => self.sizes.remove(service),
            false => self.sizes.insert(service.clone(), routes.endpoints()),
        };
        self.endpoints = self.endpoints - before.unwrap_or_default() + routes.endpoints();
    }

    async fn change(&mut self) -> Result<(), NftError> {
        let changes = self.book.take_changes();
        let Some(mut table) = self.table.take() else { return self.load().await };
        if !changes.is_empty() {
            let started = Instant::now();
            self.nft.apply(&table.change(&changes).to_string()).await?;
            debug!(frontends = changes.frontends.len(), took = ?started.elapsed(), "changed the rules of Services");
        }
        self.table = Some(table);
        forget_flows(&stale_flows(&changes)).await;
        Ok(())
    }

    /// Leaves the node its own ports, and tells of others that somebody listens on.
    fn check_ports(&mut self, service: &Key, object: &Service, routes: &mut Routes) {
        let node = &self.node;
        for (protocol, port) in keep_own(routes, object, &self.own_ports) {
            let message = format!(
                "port {port}/{protocol} of node {node} is the node's own, so connections to it do not reach this \
                 Service; use another port"
            );
            self.reports.about_service(object, "PortReserved", message);
        }
        let wanted: BTreeSet<Port> = node_ports(routes, object).collect();
        let known = match wanted.is_empty() {
            true => self.node_ports.remove(service).unwrap_or_default(),
            false => self.node_ports.insert(service.clone(), wanted.clone()).unwrap_or_default(),
        };
        if wanted.is_subset(&known) {
            return;
        }
        for (protocol, port) in listened().intersection(&wanted) {
            let message = format!(
                "a program of node {node} listens on port {port}/{protocol}, too; connections to it reach this \
                 Service: stop the program, or use another port"
            );
            self.reports.about_service(object, "PortInUse", message);
        }
    }

    /// Makes what is there into what is wanted. Only what differs is touched: connections, counters and clients'
    /// endpoints stay as they are.
    async fn load(&mut self) -> Result<(), NftError> {
        let started = Instant::now();
        let routes = self.book.routes();
        let wanted = ruleset(&routes, &self.table_name, self.cluster);
        let found = match self.must_replace {
            true => None,
            false => self.nft.list(&self.table_name).await?.into_ruleset(&wanted),
        };
        let change = found.as_ref().and_then(|found| diff(found, &wanted));
        self.must_replace = true;
        match change {
            Some(change) if change.is_empty() => {}
            Some(change) => self.nft.apply(&change.to_string()).await?,
            None => self.nft.apply(&wanted.to_string()).await?,
        }
        self.must_replace = false;
        debug!(frontends = routes.frontends.len(), took = ?started.elapsed(), "loaded the rules of Services");
        self.table = Some(Table::new(&self.table_name, &routes));
        if let Some(found) = found {
            forget_flows(&stale_flows_between(&found, &wanted)).await;
        }
        Ok(())
    }
}
