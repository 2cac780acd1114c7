//! `--node-config FILE`: a Node object that says what its machine is to be.
//!
//! The same file can be given to `kubectl apply`. Of the object only name, labels, taints and capacity count;
//! the rest is for the cluster to say, and is refused rather than passed over.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Node, Taint};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeConfig {
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub capacity: BTreeMap<String, String>,
}

impl NodeConfig {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let what = || format!("--node-config {}", path.display());
        let text = std::fs::read_to_string(path).with_context(what)?;
        NodeConfig::parse(&text).with_context(what)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let value: serde_json::Value = serde_saphyr::from_str(text)?;
        if value["kind"] != "Node" || value["apiVersion"] != "v1" {
            bail!("it must be an object of apiVersion: v1, kind: Node");
        }
        let node: Node = serde_json::from_value(value)?;
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        if spec.pod_cidr.is_some() || spec.pod_cidrs.is_some() {
            bail!("spec.podCIDR is the cluster's to give");
        }
        let capacity = status.capacity.unwrap_or_default();
        for (resource, amount) in &capacity {
            if amount.0.parse::<minik8s_meta::Quantity>().is_err() {
                bail!("status.capacity.{resource}: {:?} is not a quantity", amount.0);
            }
        }
        Ok(NodeConfig {
            name: node.metadata.name,
            labels: node.metadata.labels.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            capacity: capacity.into_iter().map(|(resource, amount)| (resource, amount.0)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts() {
        let text = "apiVersion: v1\nkind: Node\nmetadata:\n  name: big\n  labels: {disk: ssd}\n\
                    spec:\n  taints: [{key: gpu, effect: NoSchedule}]\nstatus:\n  capacity: {cpu: 4, example.com/gpu: \"2\"}\n";
        let config = NodeConfig::parse(text).unwrap();
        assert_eq!(config.name.as_deref(), Some("big"));
        assert_eq!(config.labels["disk"], "ssd");
        assert_eq!(config.taints[0].key, "gpu");
        assert_eq!((&*config.capacity["cpu"], &*config.capacity["example.com/gpu"]), ("4", "2"));
    }

    #[test]
    fn what_is_refused() {
        let check = |text: &str, why: &str| {
            let error = format!("{:#}", NodeConfig::parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        };
        check("kind: Pod\napiVersion: v1", "kind: Node");
        check("apiVersion: v1\nkind: Node\nspec: {podCIDR: 10.0.0.0/24}", "podCIDR");
        check("apiVersion: v1\nkind: Node\nstatus: {capacity: {cpu: many}}", "status.capacity.cpu");
        check("apiVersion: v1\nkind: Node\nmetadata: []", "");
        check("{", "");
    }
}
