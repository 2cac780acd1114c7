//! The rules of Services in the kernel, of each of the cluster's address families, kept in step with what is known of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;

use crate::Config;
use crate::backends::{Backends, Key};
use crate::family_rules::FamilyRules;
use crate::localnet::Localnet;
use crate::metrics::{Extent, Metrics};
use crate::names::Names;
use crate::pod_network::{Kernel, Owner};
use crate::ports::{Port, keep_own, listened, node_ports};
use crate::proxy::{NftError, Place, Routes};
use crate::reports::Reports;

pub struct ServiceRules {
    node: String,
    /// That the node is in, as its labels say.
    zone: Option<String>,
    families: Vec<FamilyRules>,
    /// Services whose routes are to be looked at again.
    waiting: BTreeSet<Key>,
    own_ports: BTreeSet<u16>,
    /// Ports of the node by the Services that take them: looked at when they change.
    node_ports: BTreeMap<Key, BTreeSet<Port>>,
    /// How many endpoints each Service has that has rules, and all together.
    sizes: BTreeMap<Key, usize>,
    endpoints: usize,
    reports: Arc<Reports>,
    metrics: Arc<Metrics>,
    /// What ports of nodes on 127.0.0.1 need; IPv6 has no such thing.
    localnet: Option<Localnet>,
    /// Those that lead to pods.
    interfaces: Vec<String>,
}

impl ServiceRules {
    pub async fn new(config: &Config, reports: Arc<Reports>) -> Self {
        let mut interfaces = vec![config.bridge.clone(), Owner::of(&config.instance).tunnel];
        // Without an uplink there are no other nodes.
        if let Some(address) = config.node_ips.iter().find(|address| address.is_ipv4())
            && let Ok(uplink) = Kernel::default().uplink(*address).await
        {
            interfaces.push(uplink.device);
        }
        let families = config.cluster_cidr.iter().map(|range| FamilyRules::new(&config.table(), range));
        ServiceRules {
            node: config.node_name.clone(),
            zone: None,
            families: families.collect(),
            waiting: BTreeSet::new(),
            own_ports: config.own_ports.clone(),
            node_ports: BTreeMap::new(),
            sizes: BTreeMap::new(),
            endpoints: 0,
            reports,
            metrics: config.metrics.clone(),
            localnet: config.cluster_cidr.v4().map(|_| Localnet::of(&config.instance)),
            interfaces: interfaces.into_iter().filter(|name| name != "lo").collect(),
        }
    }

    /// Whether the kernel has no rules of a former run. Fails where there can be no rules at all.
    pub async fn is_bare(&self) -> Result<bool, NftError> {
        let mut is_bare = true;
        for rules in &self.families {
            is_bare &= rules.is_bare().await?;
        }
        Ok(is_bare)
    }

    pub fn note(&mut self, changed: BTreeSet<Key>) {
        self.waiting.extend(changed);
    }

    /// Makes the kernel's rules follow what was noted, and counts how that went.
    pub async fn apply(&mut self, backends: &mut Backends, names: Option<&Names>) -> Result<(), NftError> {
        let started = Instant::now();
        let is_full = self.families.iter().any(FamilyRules::is_unknown);
        self.plan(backends, names);
        let mut applied = Ok(());
        for rules in &mut self.families {
            // One family's failure is no reason for the other's rules to grow old.
            applied = applied.and(rules.apply().await);
        }
        match &applied {
            Ok(()) => {
                self.open_loopback();
                let (rules, now) = (&self.metrics.rules, Timestamp::now());
                rules.synced(if is_full { Extent::Full } else { Extent::Partial }, started.elapsed(), now);
                backends.take_triggers().into_iter().for_each(|since| rules.programmed(since, now));
                rules.set_sizes(self.sizes.len(), self.endpoints);
            }
            Err(_) => self.metrics.rules.failed(),
        }
        applied
    }

    /// The rules are there that make it safe. Pods' bridge comes with the first of them.
    fn open_loopback(&self) {
        let Some(localnet) = &self.localnet else { return };
        if let Err(error) = localnet.allow(&self.interfaces) {
            let message =
                format!("ports of Services do not answer on 127.0.0.1: cannot set route_localnet: {error}");
            self.reports.about_node("KernelSettingMissing", message);
        }
    }

    /// Whether the node is in another zone than before: any Service may lead elsewhere then.
    pub fn is_moved_to(&mut self, zone: Option<String>) -> bool {
        let is_moved = self.zone != zone;
        self.zone = zone;
        is_moved
    }

    fn plan(&mut self, backends: &Backends, names: Option<&Names>) {
        for service in std::mem::take(&mut self.waiting) {
            let object = backends.service(&service);
            let place = Place { node: &self.node, zone: self.zone.as_deref() };
            let plan = |rules: &FamilyRules| match object {
                Some(object) => rules.plan(&service, object, backends, place),
                None => Routes::default(),
            };
            let mut all: Vec<Routes> = self.families.iter().map(plan).collect();
            if let Some(object) = object {
                self.check_ports(&service, object, &mut all);
            }
            self.note_size(&service, &all);
            for (rules, routes) in self.families.iter_mut().zip(all) {
                rules.put(&service, routes);
            }
        }
        if let Some(names) = names {
            for rules in &mut self.families {
                // Before all Services, by name.
                rules.put(&(String::new(), String::new()), names.routes(rules.family));
            }
        }
    }

    fn note_size(&mut self, service: &Key, all: &[Routes]) {
        let endpoints = all.iter().map(Routes::endpoints).sum();
        let before = match all.iter().all(|routes| routes.frontends.is_empty()) {
            true => self.sizes.remove(service),
            false => self.sizes.insert(service.clone(), endpoints),
        };
        self.endpoints = self.endpoints - before.unwrap_or_default() + endpoints;
    }

    /// Leaves the node its own ports, and tells of others that somebody listens on.
    fn check_ports(&mut self, service: &Key, object: &Service, all: &mut [Routes]) {
        let node = &self.node;
        let own = all.iter_mut().flat_map(|routes| keep_own(routes, object, &self.own_ports));
        for (protocol, port) in own.collect::<BTreeSet<Port>>() {
            let message = format!(
                "port {port}/{protocol} of node {node} is the node's own, so connections to it do not reach this \
                 Service; use another port"
            );
            self.reports.about_service(object, "PortReserved", message);
        }
        let wanted: BTreeSet<Port> = all.iter().flat_map(|routes| node_ports(routes, object)).collect();
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
}
