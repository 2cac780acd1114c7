//! The network of this machine's node: Services, names, policies, and the way to other nodes' pods.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use minik8s_feature::{AgentFeature, AgentParts, NodePlace};
use minik8s_informer::Kind;
use minik8s_network::pod_network::{Backend, Kernel, pod_mtu};
use minik8s_network::{Config, Dns, Metrics, pod_ports};
use tokio::sync::{Mutex, mpsc};

use crate::server::lives;

/// Requests of pods that wait for the network.
const WAITING: usize = 64;

pub struct NetworkAgent {
    /// How pods reach those of other nodes.
    backend: Backend,
    metrics: Arc<Metrics>,
}

impl NetworkAgent {
    pub fn new(backend: Backend, domain: &str) -> Self {
        NetworkAgent { backend, metrics: Arc::new(Metrics::new(domain)) }
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
            let (instance, ports) = (parts.node.place.instance.clone(), Arc::new(Mutex::new(ports)));
            parts.task("the guard of pods' ports", move || {
                let (instance, ports, policies) = (instance.clone(), ports.clone(), policies.clone());
                async move { lives(pod_ports::guard_ports(instance, &mut *ports.lock().await, policies)).await }
            });
            let node = &parts.node;
            // The network of nodes is one of IPv4 so far.
            let v4 = |addresses: &[IpAddr]| {
                addresses.iter().find_map(|address| match address {
                    IpAddr::V4(address) => Some(*address),
                    IpAddr::V6(_) => None,
                })
            };
            let (Some(node_ip), Some(cluster_cidr)) = (v4(&node.node_ips), node.cluster_cidr.v4()) else {
                tracing::error!(
                    "this node has no IPv4 address for its pods to reach: its network does not run"
                );
                return;
            };
            let uplink = Kernel::default().uplink(node_ip).await;
            parts.hooks.pod_mtu = uplink.ok().map(|uplink| pod_mtu(uplink.mtu, self.backend));
            let config = Config {
                node_name: node.name.clone(),
                node_ip,
                cluster_cidr,
                backend: self.backend,
                dns: v4(&node.dns_addresses).map(|address| Dns { address, domain: node.domain.clone() }),
                own_ports: node.own_ports.clone(),
                hosts: parts.hosts.clone(),
                pod_addresses: Arc::new(Mutex::new(pod_addresses)),
                metrics: self.metrics.clone(),
                bridge: node.bridge.clone(),
                instance: node.place.instance.clone(),
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
