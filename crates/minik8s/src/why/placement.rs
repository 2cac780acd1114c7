//! PodPlacement: how the scheduler sees a pod, node by node, for pages and programs: which filter refuses a node with the
//! smallest change, and how the others compare, score by score. The scheduler's own filters and scores judge, as for
//! `minik8s why`. Nothing is stored: of a pod that has its node it tells how nodes would compare now, without that pod, and
//! only when it is asked for by name.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use minik8s_api::{
    Cell, Column, Computed, Extension, Objects, ReadError, Resource, ResourceRef, Scope, Strategy, table,
};
use minik8s_feature::{Parts, ServerFeature};
use minik8s_meta::{api_version, kind, served_type};
use minik8s_metrics::History;
use minik8s_scheduler::snapshot::{PodInfo, Snapshot};
use minik8s_scheduler::{
    NodeObstacles, NodeScores, SETTINGS, Strategy as Choice, diagnose, measured_use, nearest, rank,
    strategy_of,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{add_devices, pending, snapshot};

/// Nodes that are told of, the nearest first.
const MOST_NODES: usize = 50;
/// Pods that a list explains: each is held against every node.
const MOST_PODS: usize = 20;

/// PodPlacement tells what the scheduler has against each node, and how it compares the others. It has the name of the pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.PodPlacement")]
#[serde(rename_all = "camelCase")]
pub struct PodPlacement {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<PodPlacement>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<PodPlacement>")]
    pub kind: String,
    /// Name and namespace of the pod.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// text is what `minik8s why` says.
    pub text: String,
    /// nodeName is where the pod is, if it has a node. Then nodes are compared as they are now, without the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// strategy by which the scheduler chooses among the nodes that are possible.
    #[serde(default)]
    pub strategy: String,
    /// nodeCount is how many nodes there are.
    pub node_count: usize,
    /// nodes with what stands in the way on each; the pod would fit where nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<PlacementNode>,
    /// smallest is the node that takes the least to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<PlacementNode>,
}

/// PlacementNode is what stands in the way on one node, or what it gets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.PlacementNode")]
#[serde(rename_all = "camelCase")]
pub struct PlacementNode {
    /// name of the node.
    pub name: String,
    /// obstacles in the order of the scheduler's filters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<PlacementObstacle>,
    /// scores where there are no obstacles and the strategy compares nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<PlacementScore>,
    /// total of the scores by their weights: the most is chosen, ties are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
}

/// PlacementScore is what one consideration gives a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.PlacementScore")]
#[serde(rename_all = "camelCase")]
pub struct PlacementScore {
    /// name of the score.
    pub name: String,
    /// weight with which it counts.
    pub weight: f64,
    /// value from 0 to 100, among the nodes that are compared.
    pub value: f64,
}

/// PlacementObstacle is one filter that refuses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.PlacementObstacle")]
#[serde(rename_all = "camelCase")]
pub struct PlacementObstacle {
    /// filter that refuses.
    pub filter: String,
    /// reasons in the scheduler's words.
    pub reasons: Vec<String>,
    /// remedy is the smallest change that would satisfy it.
    pub remedy: String,
}

served_type!(PodPlacement: "minik8s.io" "v1" "PodPlacement" "podplacements" NamespaceResourceScope);

/// The feature `placement`.
#[derive(Default)]
pub struct Placement {
    client: Arc<OnceLock<Client>>,
    /// What nodes use, by which some strategies choose.
    metrics: Arc<History>,
}

impl Placement {
    pub fn new(metrics: Arc<History>) -> Self {
        Placement { client: Arc::default(), metrics }
    }
}

impl ServerFeature for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn extension(&self) -> Extension {
        let explained = Explained { client: self.client.clone(), metrics: self.metrics.clone() };
        let resource = Resource::of::<PodPlacement>(Columns).computed(explained);
        Extension { kinds: vec![resource], ..Extension::default() }
    }

    fn start(&self, parts: &mut Parts) {
        let _ = self.client.set(parts.client.clone());
    }
}

struct Explained {
    client: Arc<OnceLock<Client>>,
    metrics: Arc<History>,
}

#[async_trait]
impl Computed for Explained {
    async fn objects(&self, cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let pods = ResourceRef { group: "", version: "v1", plural: "pods" };
        let (by_name, now) = (scope.name.is_some(), scope.now);
        let mut pods = cluster.read(&pods, scope).await?;
        pods.retain(|pod| match (node_of(pod), pod["status"]["phase"].as_str()) {
            (None, phase) => phase == Some("Pending"),
            (Some(_), phase) => by_name && !matches!(phase, Some("Succeeded" | "Failed")),
        });
        if pods.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: String| ReadError(error);
        let client = self.client.get().ok_or_else(|| failed("this server is only starting".to_owned()))?;
        let mut seen = snapshot(client).await.map_err(|error| failed(format!("{error:#}")))?;
        if pods.iter().any(|pod| pod["spec"]["resourceClaims"].is_array()) {
            add_devices(client, &mut seen).await.map_err(|error| failed(format!("{error:#}")))?;
        }
        let names: Vec<String> = seen.nodes().map(|node| node.name.clone()).collect();
        for name in names {
            seen.set_usage(&name, measured_use(&self.metrics, &name, now));
        }
        let choice = choice_of_cluster(cluster, now).await?;
        let explained = pods.into_iter().take(MOST_PODS).map(|pod| {
            let pod = unbound(serde_json::from_value(pod)?);
            serde_json::to_value(placement(&PodInfo::new(Arc::new(pod)), &mut seen, choice))
        });
        explained.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))
    }
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())
}

/// A pod as it was before it had a node: with one, no other would be possible.
fn unbound(mut pod: Pod) -> Pod {
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
    }
    pod
}

/// As the scheduler reads it: what it cannot read is the default.
async fn choice_of_cluster(cluster: &dyn Objects, now: Timestamp) -> Result<Choice, ReadError> {
    let (namespace, name, key) = SETTINGS;
    let maps = ResourceRef { group: "", version: "v1", plural: "configmaps" };
    let found = cluster.read(&maps, Scope { namespace, name: Some(name), now }).await?;
    let set = found.first().and_then(|map| map["data"][key].as_str()?.parse().ok());
    Ok(set.unwrap_or_default())
}

/// Pure. A pod that has a node is taken from it, and stays away.
fn placement(pod: &PodInfo, seen: &mut Snapshot, choice: Choice) -> PodPlacement {
    let node_name = seen.displace(&pod.key).map(|(_, node)| node);
    let choice = strategy_of(pod, choice);
    let mut nodes = diagnose(pod, seen);
    let ranked = rank(pod, seen, choice);
    let told = |node: &NodeObstacles| told(node, ranked.iter().find(|one| one.node == node.node));
    let smallest = nearest(&nodes).map(told);
    let node_count = nodes.len();
    // The best first, then those that lack least.
    let place = |node: &NodeObstacles| ranked.iter().position(|one| one.node == node.node);
    nodes.sort_by_cached_key(|node| (node.obstacles.len(), place(node)));
    let text = match &node_name {
        Some(node) => {
            let fitting = ranked.len();
            format!("Pod {} is on node {node}; now {fitting} of {node_count} nodes would take it.\n", pod.key)
        }
        None => pending::explain(pod, seen),
    };
    PodPlacement {
        api_version: api_version::<PodPlacement>(),
        kind: kind::<PodPlacement>(),
        metadata: ObjectMeta {
            name: pod.pod.metadata.name.clone(),
            namespace: pod.pod.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        text,
        node_name,
        strategy: choice.to_string(),
        node_count,
        nodes: nodes.iter().take(MOST_NODES).map(told).collect(),
        smallest,
    }
}

fn told(node: &NodeObstacles, ranked: Option<&NodeScores>) -> PlacementNode {
    let obstacles = node.obstacles.iter().map(|obstacle| PlacementObstacle {
        filter: obstacle.filter.to_owned(),
        reasons: obstacle.reasons.clone(),
        remedy: obstacle.remedy.clone(),
    });
    let scores = ranked.into_iter().flat_map(|ranked| &ranked.scores).map(|score| PlacementScore {
        name: score.name.to_owned(),
        weight: score.weight,
        value: round(score.value),
    });
    let scores: Vec<PlacementScore> = scores.collect();
    PlacementNode {
        name: node.node.clone(),
        obstacles: obstacles.collect(),
        total: ranked.filter(|_| !scores.is_empty()).map(|ranked| round(ranked.total)),
        scores,
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

struct Columns;

impl Strategy for Columns {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Nodes", "Nearest", "Smallest change"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        let smallest = &object["smallest"];
        let remedies = smallest["obstacles"].as_array().into_iter().flatten();
        let remedies: Vec<&str> = remedies.filter_map(|obstacle| obstacle["remedy"].as_str()).collect();
        vec![
            table::name(object),
            table::text_or(&object["nodeCount"], "0").into(),
            table::text_or(&smallest["name"], table::NONE).into(),
            remedies.join("; and ").into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    fn cluster() -> Snapshot {
        let mut seen = Snapshot::default();
        for (name, spec) in [("big", json!({})), ("off", json!({"unschedulable": true}))] {
            seen.set_node(node(name, "1", spec));
        }
        seen
    }

    fn node(name: &str, cpu: &str, spec: Value) -> Arc<Node> {
        let node = json!({
            "metadata": {"name": name}, "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
                       "conditions": [{"type": "Ready", "status": "True"}]},
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn pod(cpu: &str) -> Arc<PodInfo> {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        });
        PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    #[test]
    fn nodes_with_what_would_help() {
        let mut seen = cluster();
        let found = placement(&pod("2"), &mut seen, Choice::Balanced);
        assert_eq!((found.node_count, found.nodes[0].name.as_str()), (2, "big"));
        assert_eq!(found.nodes[1].obstacles.len(), 2, "{found:?}");
        assert!(found.nodes.iter().all(|node| node.scores.is_empty() && node.total.is_none()));
        let smallest = found.smallest.as_ref().unwrap();
        assert_eq!(
            (smallest.name.as_str(), smallest.obstacles[0].filter.as_str()),
            ("big", "NodeResourcesFit")
        );
        let row = Columns.row(&serde_json::to_value(&found).unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(row[2], "big");
        assert!(row[3].as_str().unwrap().contains("less cpu"), "{row:?}");
        assert!(found.text.contains("none of 2 nodes"), "{}", found.text);
    }

    #[test]
    fn nodes_that_are_possible_are_compared_without_the_pod() {
        let mut seen = cluster();
        seen.set_node(node("bigger", "4", json!({})));
        let mut bound = pod("1").pod.as_ref().clone();
        bound.spec.as_mut().unwrap().node_name = Some("big".to_owned());
        seen.place(PodInfo::new(Arc::new(bound.clone())), "big");
        let found = placement(&PodInfo::new(Arc::new(unbound(bound))), &mut seen, Choice::Balanced);
        assert_eq!(found.node_name.as_deref(), Some("big"));
        let order: Vec<&str> = found.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(order, ["bigger", "big", "off"], "{found:?}");
        // The node on which it is has room for it: its own.
        assert!(found.nodes[1].obstacles.is_empty() && found.nodes[0].total > found.nodes[1].total);
        assert!(found.nodes[0].scores.iter().any(|score| score.name == "LeastAllocated"), "{found:?}");
        assert_eq!((found.strategy.as_str(), found.nodes[2].total), ("balanced", None));
        assert!(found.text.contains("on node big") && found.text.contains("2 of 3"), "{}", found.text);
        let found = placement(&pod("1"), &mut seen, Choice::Random);
        assert!(found.nodes.iter().all(|node| node.total.is_none()), "it draws: {found:?}");
    }
}
