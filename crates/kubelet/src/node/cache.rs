//! The Node object of this machine as the API server shows it, for admission: others label and taint it.
//!
//! It never writes; what the node itself says of its resources is computed, not read back.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use minik8s_informer::{Informer, Key};
use minik8s_runtime::placement::Resources;
use thiserror::Error;

use super::status::{capacity, default_labels};
use crate::Config;
use crate::machine::Machine;
use crate::pod::NodeView;
use crate::quantity;

/// Who waits for an answer holds up the admission of other pods.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub enum FetchError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
}

pub struct NodeCache {
    /// Of all nodes, as the network needs them too.
    nodes: Arc<Informer<core::Node>>,
}

impl NodeCache {
    pub fn new(nodes: Arc<Informer<core::Node>>) -> Self {
        NodeCache { nodes }
    }

    /// Asks for the newest state, for who is about to say no because of the one that is known.
    pub async fn refresh(&self, client: kube::Client, name: &str) -> Result<(), FetchError> {
        let get = async { Api::<core::Node>::all(client).get(name).await };
        let node = tokio::time::timeout(TIMEOUT, get).await.map_err(|_| FetchError::Timeout)??;
        self.nodes.offer(node);
        Ok(())
    }

    /// The node as pods see it; as long as the API server showed nothing, as it will be registered.
    pub fn view(&self, config: &Config, machine: &Machine) -> NodeView {
        let known = self.nodes.get(&Key::new("", &*config.node_name));
        let node = known.map_or_else(|| initial(config, machine), |node| core::Node::clone(&node));
        // Others may add resources to the object's status; its own are what the node says they are.
        let offered = node.status.as_ref().and_then(|status| status.allocatable.clone()).unwrap_or_default();
        let all = offered.into_iter().chain(capacity(config, machine)).collect();
        NodeView {
            allocatable: Resources::of_map(Some(&all)),
            pods: all.get("pods").and_then(|pods| quantity::value(&pods.0)).map_or(0, |n| n.max(0) as usize),
            node: core::Node { status: None, ..node },
        }
    }
}

fn initial(config: &Config, machine: &Machine) -> core::Node {
    let mut node = core::Node::default();
    node.metadata.name = Some(config.node_name.clone());
    node.metadata.labels = Some(default_labels(config, machine));
    node.spec.get_or_insert_default().taints = Some(config.taints.clone());
    node
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use minik8s_informer::{Caches, ListOptions};
    use serde_json::json;

    use super::*;

    #[test]
    fn node_view_has_the_labels_of_others_and_its_own_resources() {
        let mut config = Config::new("n1", Path::new("/d"), "192.0.2.1".parse().unwrap());
        config.labels.insert("disk".into(), "ssd".into());
        let machine = Machine { cpus: 2, memory: 1 << 30, ..Machine::default() };
        let nodes = Caches::detached().informer(ListOptions::default());
        let cache = NodeCache::new(nodes.clone());
        let labels = |view: &NodeView| view.node.metadata.labels.clone().unwrap_or_default();
        let first = cache.view(&config, &machine);
        assert_eq!(labels(&first).get("disk").map(String::as_str), Some("ssd"));
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a"}},
            "status": {"allocatable": {"cpu": "64", "example.com/gpu": "3"}}});
        nodes.apply(serde_json::from_value(node).unwrap());
        let view = cache.view(&config, &machine);
        assert_eq!(labels(&view).get("zone").map(String::as_str), Some("a"));
        assert_eq!((view.allocatable.cpu, view.allocatable.other("example.com/gpu")), (2000, 3));
        assert_eq!(view.pods, 110);
    }
}
