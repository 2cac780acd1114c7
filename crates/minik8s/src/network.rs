//! The network of this machine's node: Services, names, policies, and the way to other nodes' pods.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use minik8s_feature::{AgentFeature, AgentParts, NodePlace};
use minik8s_informer::Kind;
use minik8s_meta::mesh::MeshRouted;
use minik8s_meta::{Cidrs, IpFamily};
use minik8s_network::pod_network::{Backend, Kernel, pod_mtu};
use minik8s_network::{Config, Dns, Metrics, pod_ports};
use tokio::sync::{Mutex, mpsc, watch};

use crate::server::lives;

/// Requests of pods that wait for the network.
const WAITING: usize = 64;

pub struct NetworkAgent {
    /// How pods reach those of other nodes.
    backend: Backend,
    metrics: Arc<Metrics>,
    /// What the node's proxies lead to.
    mesh: watch::Receiver<MeshRouted>,
}

impl NetworkAgent {
    pub fn new(backend: Backend, domain: &str, mesh: watch::Receiver<MeshRouted>) -> Self {
        NetworkAgent { backend, metrics: Arc::new(Metrics::new(domain)), mesh }
    }

    /// Behind the smallest uplink. Nodes meet in the family of the cluster's first range if they can.
    async fn pod_mtu(&self, node_ips: &[IpAddr], cluster_cidr: &Cidrs) -> Option<u32> {
        let primary = IpFamily::of(cluster_cidr.primary().addr());
        let has_primary = node_ips.iter().any(|address| IpFamily::of(*address) == primary);
        let underlay = if has_primary { primary } else { primary.other() };
        let mut smallest = None;
        for address in node_ips {
            let uplink = Kernel::default().uplink(*address).await.ok();
            smallest = smallest.into_iter().chain(uplink.map(|uplink| uplink.mtu)).min();
        }
        smallest.map(|mtu| pod_mtu(mtu, underlay, self.backend))
    }
}

impl AgentFeature for NetworkAgent {
    fn name(&self) -> &'static str {
        "network"
    }

    fn checkpointed(&self) -> Vec<Kind> {
        minik8s_network::checkpointed()
    }

    fn run<'a>(&'a self, parts: &'a mut AgentParts) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (policies, pod_addresses) = mpsc::channel(WAITING);
            let (guards, ports) = mpsc::channel(WAITING);
            let (drains, ending) = mpsc::channel(WAITING);
            parts.hooks.port_guards = Some(guards);
            parts.hooks.drains = Some(drains);
            let guard = (parts.node.place.instance.clone(), parts.node.cluster_cidr.v6().is_some());
            let ports = Arc::new(Mutex::new(ports));
            parts.task("the guard of pods' ports", move || {
                let (guard, ports, policies) = (guard.clone(), ports.clone(), policies.clone());
                async move { lives(pod_ports::guard_ports(guard, &mut *ports.lock().await, policies)).await }
            });
            let node = &parts.node;
            let (cluster_cidr, node_ips) = (node.cluster_cidr, node.node_ips.clone());
            parts.hooks.pod_mtu = self.pod_mtu(&node_ips, &cluster_cidr).await;
            let config = Config {
                node_name: node.name.clone(),
                node_ips,
                cluster_cidr,
                backend: self.backend,
                dns: Some(Dns { addresses: node.dns_addresses.clone(), domain: node.domain.clone() }),
                own_ports: node.own_ports.clone(),
                hosts: parts.hosts.clone(),
                pod_addresses: Arc::new(Mutex::new(pod_addresses)),
                metrics: self.metrics.clone(),
                bridge: node.bridge.clone(),
                instance: node.place.instance.clone(),
                mesh: self.mesh.clone(),
                stop: parts.stop.clone(),
            };
            let (access, ending) = (parts.access.clone(), Arc::new(Mutex::new(ending)));
            parts.task("the node's network", move || {
                let (access, config, ending) = (access.clone(), config.clone(), ending.clone());
                async move { lives(minik8s_network::run(access, config, &mut *ending.lock().await)).await }
            });
        })
    }

    fn metrics(&self) -> String {
        self.metrics.page()
    }

    fn teardown<'a>(&'a self, place: &'a NodePlace) -> BoxFuture<'a, ()> {
        Box::pin(minik8s_network::tear_down(&place.instance))
    }
}
