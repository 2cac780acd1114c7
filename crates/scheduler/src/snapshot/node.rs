//! One node and what is placed on it.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};

use minik8s_meta::Quantity;
use minik8s_runtime::Key;
use minik8s_runtime::placement::{HostPort, Resources};

use super::{PodInfo, Slot};

/// What a node really uses, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub cpu_millis: i64,
    pub memory_bytes: i64,
}

/// So many measurements after it was placed a pod is believed to be in them.
const UNSEEN_MEASUREMENTS: u8 = 5;

pub struct NodeInfo {
    pub slot: Slot,
    pub node: Arc<Node>,
    pub name: String,
    pub allocatable: Resources,
    pub max_pods: usize,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    /// Image name to size in bytes.
    pub images: HashMap<String, i64>,
    pub requested: Resources,
    /// Like `requested`, but a pod that asks for nothing counts a little, so that such pods spread too.
    pub burden: Resources,
    pub ports: Vec<HostPort>,
    /// None where nobody measures.
    pub usage: Option<Usage>,
    /// What pods that came too lately to be in `usage` will use, as far as they say.
    pub newcomers: HashMap<Key, (Resources, u8)>,
    pods: HashMap<Key, Arc<PodInfo>>,
}

impl NodeInfo {
    pub fn new(slot: Slot, node: Arc<Node>) -> Self {
        let mut info = NodeInfo {
            slot,
            name: node.metadata.name.clone().unwrap_or_default(),
            node: node.clone(),
            allocatable: Resources::default(),
            max_pods: 0,
            taints: Vec::new(),
            unschedulable: false,
            images: HashMap::new(),
            requested: Resources::default(),
            burden: Resources::default(),
            ports: Vec::new(),
            usage: None,
            newcomers: HashMap::new(),
            pods: HashMap::new(),
        };
        info.set_node(node);
        info
    }

    pub fn set_node(&mut self, node: Arc<Node>) {
        let status = node.status.as_ref();
        let offered = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
        self.allocatable = Resources::of_map(offered);
        let pods = offered.and_then(|map| map.get("pods")).and_then(|q| Quantity::try_from(q).ok());
        self.max_pods = pods.map_or(0, |amount| usize::try_from(amount.value()).unwrap_or(0));
        let spec = node.spec.as_ref();
        self.taints = spec.and_then(|s| s.taints.clone()).unwrap_or_default();
        self.unschedulable = spec.and_then(|s| s.unschedulable).unwrap_or(false);
        // A node that has just joined is unready before the node lifecycle controller has tainted it.
        if !is_ready(&node) && !self.taints.iter().any(|t| t.key == NOT_READY || t.key == UNREACHABLE) {
            let effect = "NoSchedule".to_owned();
            self.taints.push(Taint { key: NOT_READY.to_owned(), effect, ..Taint::default() });
        }
        let images = status.and_then(|s| s.images.as_ref()).into_iter().flatten();
        self.images = images
            .flat_map(|image| {
                let size = image.size_bytes.unwrap_or(0);
                image.names.iter().flatten().map(move |name| (name.clone(), size))
            })
            .collect();
        self.node = node;
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.node.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// The node's domain of a topology key: the label's value.
    pub fn topology(&self, key: &str) -> Option<&str> {
        // Nodes are told apart by name even if nobody labelled them.
        if key == "kubernetes.io/hostname" { self.label(key).or(Some(&self.name)) } else { self.label(key) }
    }

    pub fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values()
    }

    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Takes a measurement. A pod is taken to show in the metrics only after it was there for several of them: it
    /// has to start first.
    pub(super) fn set_usage(&mut self, usage: Option<Usage>) {
        self.usage = usage;
        self.newcomers.retain(|_, (_, measurements)| {
            *measurements += 1;
            *measurements < UNSEEN_MEASUREMENTS
        });
    }

    /// What is measured, and what pods that do not show in it yet ask for.
    pub fn expected_usage(&self) -> Option<Usage> {
        let mut usage = self.usage?;
        for (burden, _) in self.newcomers.values() {
            usage.cpu_millis += burden.cpu;
            usage.memory_bytes += burden.memory;
        }
        Some(usage)
    }

    pub(super) fn add_pod(&mut self, pod: Arc<PodInfo>) {
        if self.usage.is_some() {
            self.newcomers.insert(pod.key.clone(), (pod.burden.clone(), 0));
        }
        self.requested.add(&pod.requests);
        self.burden.add(&pod.burden);
        self.ports.extend(pod.ports.iter().cloned());
        self.pods.insert(pod.key.clone(), pod);
    }

    pub(super) fn remove_pod(&mut self, pod: &PodInfo) {
        let Some(pod) = self.pods.remove(&pod.key) else { return };
        self.newcomers.remove(&pod.key);
        self.requested.subtract(&pod.requests);
        self.burden.subtract(&pod.burden);
        for port in &pod.ports {
            if let Some(i) = self.ports.iter().position(|p| p == port) {
                self.ports.swap_remove(i);
            }
        }
    }
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}
