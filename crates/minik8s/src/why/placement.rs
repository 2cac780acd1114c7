//! PodPlacement: why no node takes a pod, node by node, with the smallest change, for pages and programs. The scheduler's own
//! filters judge, as for `minik8s why`; nothing is stored, and what has a node has none.

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
use minik8s_scheduler::snapshot::{PodInfo, Snapshot};
use minik8s_scheduler::{NodeObstacles, diagnose, nearest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{add_devices, pending, snapshot};

/// Nodes that are told of, the nearest first.
const MOST_NODES: usize = 50;
/// Pods that a list explains: each is held against every node.
const MOST_PODS: usize = 20;

/// PodPlacement tells why no node takes a pod. It has the name of the pod.
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
    /// nodeCount is how many nodes there are.
    pub node_count: usize,
    /// nodes with what stands in the way on each; the pod would fit where nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<PlacementNode>,
    /// smallest is the node that takes the least to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<PlacementNode>,
}

/// PlacementNode is what stands in the way on one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.PlacementNode")]
#[serde(rename_all = "camelCase")]
pub struct PlacementNode {
    /// name of the node.
    pub name: String,
    /// obstacles in the order of the scheduler's filters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<PlacementObstacle>,
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
}

impl ServerFeature for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn extension(&self) -> Extension {
        let resource = Resource::of::<PodPlacement>(Columns).computed(Explained(self.client.clone()));
        Extension { kinds: vec![resource], ..Extension::default() }
    }

    fn start(&self, parts: &mut Parts) {
        let _ = self.client.set(parts.client.clone());
    }
}

struct Explained(Arc<OnceLock<Client>>);

#[async_trait]
impl Computed for Explained {
    async fn objects(&self, cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let pods = ResourceRef { group: "", version: "v1", plural: "pods" };
        let mut pods = cluster.read(&pods, scope).await?;
        pods.retain(|pod| {
            pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty()
                && pod["status"]["phase"] == "Pending"
        });
        if pods.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: String| ReadError(error);
        let client = self.0.get().ok_or_else(|| failed("this server is only starting".to_owned()))?;
        let mut seen = snapshot(client).await.map_err(|error| failed(format!("{error:#}")))?;
        if pods.iter().any(|pod| pod["spec"]["resourceClaims"].is_array()) {
            add_devices(client, &mut seen).await.map_err(|error| failed(format!("{error:#}")))?;
        }
        let explained = pods.into_iter().take(MOST_PODS).map(|pod| {
            let pod: Pod = serde_json::from_value(pod)?;
            serde_json::to_value(placement(&PodInfo::new(Arc::new(pod)), &seen))
        });
        explained.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))
    }
}

/// Pure.
fn placement(pod: &PodInfo, seen: &Snapshot) -> PodPlacement {
    let mut nodes = diagnose(pod, seen);
    let told = |node: &NodeObstacles| PlacementNode {
        name: node.node.clone(),
        obstacles: node
            .obstacles
            .iter()
            .map(|obstacle| PlacementObstacle {
                filter: obstacle.filter.to_owned(),
                reasons: obstacle.reasons.clone(),
                remedy: obstacle.remedy.clone(),
            })
            .collect(),
    };
    let smallest = nearest(&nodes).map(told);
    let node_count = nodes.len();
    nodes.sort_by_key(|node| node.obstacles.len());
    PodPlacement {
        api_version: api_version::<PodPlacement>(),
        kind: kind::<PodPlacement>(),
        metadata: ObjectMeta {
            name: pod.pod.metadata.name.clone(),
            namespace: pod.pod.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        text: pending::explain(pod, seen),
        node_count,
        nodes: nodes.iter().take(MOST_NODES).map(told).collect(),
        smallest,
    }
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
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_with_what_would_help() {
        let mut seen = Snapshot::default();
        for (name, spec) in [("big", json!({})), ("off", json!({"unschedulable": true}))] {
            let node = json!({
                "metadata": {"name": name}, "spec": spec,
                "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10"},
                           "conditions": [{"type": "Ready", "status": "True"}]},
            });
            seen.set_node(Arc::new(serde_json::from_value(node).unwrap()));
        }
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        });
        let pod = PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()));
        let found = placement(&pod, &seen);
        assert_eq!((found.node_count, found.nodes[0].name.as_str()), (2, "big"));
        assert_eq!(found.nodes[1].obstacles.len(), 2, "{found:?}");
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
}
