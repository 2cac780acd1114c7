//! The mesh's part of a node as a feature of its agent.

use std::sync::Arc;

use futures::future::BoxFuture;
use minik8s_feature::{AgentFeature, AgentParts, NodePlace};
use minik8s_meta::mesh::MeshRouted;
use minik8s_proxy::LedServices;
use tokio::sync::{Mutex, mpsc, watch};

use super::metrics::Metrics;
use super::{Node, Requests};

/// Requests that wait for the agent.
const WAITING: usize = 64;

#[derive(Debug, Default)]
pub struct MeshAgent {
    metrics: Arc<Metrics>,
    /// Where it says which Services its own proxy leads.
    pub led: watch::Sender<Arc<LedServices>>,
    /// Where it says which pods its proxies lead requests to.
    pub routed: watch::Sender<MeshRouted>,
}

impl AgentFeature for MeshAgent {
    fn name(&self) -> &'static str {
        "mesh"
    }

    fn run<'a>(&'a self, parts: &'a mut AgentParts) -> BoxFuture<'a, ()> {
        let (sender, steps) = mpsc::channel(WAITING);
        parts.hooks.mesh = Some(sender);
        let (sender, taps) = mpsc::channel(WAITING);
        parts.hooks.mesh_taps = Some(sender);
        // They outlive a run, so that one that failed can be started anew.
        let requests = Arc::new(Mutex::new(Requests { steps, taps }));
        let (access, metrics) = (parts.access.clone(), self.metrics.clone());
        let node = Node {
            name: parts.node.name.clone(),
            domain: parts.node.domain.clone(),
            pods_dir: parts.node.pods_dir.clone(),
            instance: parts.node.place.instance.clone(),
            tracer: parts.tracer.clone(),
            led: self.led.clone(),
            routed: self.routed.clone(),
        };
        parts.task("the mesh's part of the node", move || {
            let (access, node) = (access.clone(), node.clone());
            let (requests, metrics) = (requests.clone(), metrics.clone());
            async move {
                super::run(access, node, metrics, &mut *requests.lock().await).await;
                Ok(())
            }
        });
        Box::pin(std::future::ready(()))
    }

    fn metrics(&self) -> String {
        self.metrics.page()
    }

    fn teardown<'a>(&'a self, place: &'a NodePlace) -> BoxFuture<'a, ()> {
        Box::pin(super::tear_down(&place.instance))
    }
}
