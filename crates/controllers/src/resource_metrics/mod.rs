//! Collects what nodes, pods and containers use into the [`History`].
//!
//! Every node has a stream of metrics that is held open through the API's own way to nodes, so that all nodes are
//! reached alike and only with the API server's credentials. Pods' own metrics are asked for only where an
//! autoscaler goes by them ([`Wants`]). Nothing here decides anything; a node that does not answer is asked again,
//! ever more seldom.

mod follow;
mod resource;
mod series;
mod usage;
mod wants;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use minik8s_metrics::History;
use minik8s_runtime::{Cache, Caches};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::simulate;
pub use resource::resources;
pub use wants::Wants;

/// Collects until `stop`.
pub async fn run(
    client: Client,
    caches: Arc<Caches>,
    history: Arc<History>,
    wants: Arc<Wants>,
    stop: CancellationToken,
) {
    let (nodes, pods) = (caches.of::<Node>(), caches.of::<Pod>());
    let changed = Arc::new(Notify::new());
    nodes.listen({
        let changed = changed.clone();
        Box::new(move |old, new| {
            // Heartbeats change nothing here.
            if old.map(|node| answers(node)) != new.map(|node| answers(node)) {
                changed.notify_one();
            }
        })
    });
    let (tasks, running) = Default::default();
    let mut streams = Streams { client, pods, history, tasks, running };
    loop {
        let measured: Vec<String> = nodes
            .list()
            .into_iter()
            .filter(|node| answers(node))
            .filter_map(|node| node.metadata.name.clone())
            .collect();
        streams.keep(&measured, &wants);
        tokio::select! {
            () = changed.notified() => {}
            () = wants.changed() => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Nodes without machines have nothing to tell, and those that are away can tell nothing.
fn answers(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    ready && node.metadata.labels.as_ref().is_none_or(|labels| !labels.contains_key(simulate::LABEL))
}

/// The streams that are held open, by node and path.
struct Streams {
    client: Client,
    pods: Arc<Cache<Pod>>,
    history: Arc<History>,
    tasks: JoinSet<()>,
    running: BTreeMap<(String, String), AbortHandle>,
}

impl Streams {
    /// Opens those that are missing and closes those that nobody needs.
    fn keep(&mut self, nodes: &[String], wants: &Wants) {
        let mut needed: BTreeMap<(String, String), follow::What> = BTreeMap::new();
        for node in nodes {
            needed.insert((node.clone(), "metrics/stream".to_owned()), follow::What::Everything);
            if let Some(query) = wants.of_node(node) {
                needed.insert((node.clone(), format!("metrics/pods?{query}")), follow::What::OwnMetrics);
            }
        }
        self.running.retain(|place, task| {
            let stays = needed.contains_key(place);
            if !stays {
                task.abort();
            }
            stays
        });
        while self.tasks.try_join_next().is_some() {}
        for ((node, path), what) in needed {
            if !self.running.contains_key(&(node.clone(), path.clone())) {
                let follow = follow::follow(
                    self.client.clone(),
                    self.pods.clone(),
                    self.history.clone(),
                    node.clone(),
                    path.clone(),
                    what,
                );
                self.running.insert((node, path), self.tasks.spawn(follow));
            }
        }
    }
}
