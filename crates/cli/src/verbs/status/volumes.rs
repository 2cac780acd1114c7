//! Claims, and how full the volumes are that pods use. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use minik8s_meta::volume_fullness::is_full;
use serde_json::Value;

use super::Cluster;
use super::nodes::{bytes, share};
use crate::print::tabs;

/// How many volumes fit on a screen: the fullest.
const MOST: usize = 5;

/// How full the volume of a claim is, as its node measures it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub namespace: String,
    pub claim: String,
    pub used: i64,
    pub available: i64,
    pub capacity: i64,
}

impl Usage {
    pub fn is_full(&self) -> bool {
        let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
        is_full(bytes(self.available), bytes(self.capacity))
    }
}

/// The nodes with pods that use claims: only those have something to say.
pub fn nodes_to_ask(pods: &[Value]) -> Vec<String> {
    let uses = |pod: &&Value| {
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        volumes
            .into_iter()
            .any(|one| one["persistentVolumeClaim"].is_object() || one["ephemeral"].is_object())
    };
    let names = pods.iter().filter(uses).filter_map(|pod| pod["spec"]["nodeName"].as_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// What the summary of a node says of claims.
pub fn usages(summary: &Value) -> Vec<Usage> {
    let mut all = BTreeMap::new();
    for pod in summary["pods"].as_array().into_iter().flatten() {
        for volume in pod["volume"].as_array().into_iter().flatten() {
            let text = |field: &str| volume["pvcRef"][field].as_str().map(str::to_owned);
            let (Some(namespace), Some(claim)) = (text("namespace"), text("name")) else { continue };
            let number = |field: &str| volume[field].as_i64().unwrap_or(0);
            let usage = Usage {
                used: number("usedBytes"),
                available: number("availableBytes"),
                capacity: number("capacityBytes"),
                namespace: namespace.clone(),
                claim: claim.clone(),
            };
            all.insert((namespace, claim), usage);
        }
    }
    all.into_values().collect()
}

/// Nothing where there are no claims.
pub fn table(cluster: &Cluster) -> String {
    if cluster.claims.is_empty() {
        return String::new();
    }
    let phase = |phase: &str| cluster.claims.iter().filter(|claim| claim["status"]["phase"] == phase).count();
    let mut counts = vec![format!("{} bound", phase("Bound"))];
    counts.extend((phase("Pending") > 0).then(|| format!("{} pending", phase("Pending"))));
    let mut text = format!("Volumes\n  Claims  {}  {}\n", cluster.claims.len(), counts.join(", "));
    let mut fullest: Vec<&Usage> = cluster.usages.iter().filter(|usage| usage.capacity > 0).collect();
    fullest.sort_by_key(|usage| (usage.used * -100 / usage.capacity, &usage.namespace, &usage.claim));
    let mut lines = String::new();
    for usage in fullest.iter().take(MOST) {
        let Usage { namespace, claim, used, capacity, .. } = usage;
        let _ = writeln!(lines, "  {namespace}/{claim}\t{} of {}", share(*used, *capacity), bytes(*capacity));
    }
    text.push_str(&tabs::align(&lines, tabs::DESCRIPTION));
    if fullest.len() > MOST {
        let _ = writeln!(text, "  and {} more that are less full", fullest.len() - MOST);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fullest_volumes_are_shown() {
        let volume = |claim: &str, used: i64| {
            json!({"name": "data", "pvcRef": {"namespace": "default", "name": claim},
                "usedBytes": used << 20, "capacityBytes": 16 << 20, "availableBytes": (16 - used) << 20})
        };
        let summary = json!({"pods": [{"volume": [volume("a", 4), {"name": "other"}]},
            {"volume": [volume("b", 16), volume("a", 4)]}]});
        let claim = |phase: &str| json!({"status": {"phase": phase}});
        let cluster = Cluster {
            claims: vec![claim("Bound"), claim("Bound"), claim("Pending")],
            usages: usages(&summary),
            ..Cluster::default()
        };
        let expected = "\
Volumes
  Claims  3  2 bound, 1 pending
  default/b  ████████████ 100% of 16Mi
  default/a  ███░░░░░░░░░  25% of 16Mi

";
        assert_eq!(table(&cluster), expected);
        assert!(cluster.usages[1].is_full() && !cluster.usages[0].is_full());
        assert_eq!(table(&Cluster::default()), "");
    }

    #[test]
    fn only_nodes_with_claims_are_asked() {
        let pod =
            |node: Option<&str>, volume: Value| json!({"spec": {"nodeName": node, "volumes": [volume]}});
        let claim = json!({"persistentVolumeClaim": {"claimName": "c"}});
        let pods = [
            pod(Some("b"), claim.clone()),
            pod(Some("a"), json!({"ephemeral": {}})),
            pod(Some("c"), json!({"emptyDir": {}})),
            pod(None, claim.clone()),
            pod(Some("b"), claim),
        ];
        assert_eq!(nodes_to_ask(&pods), ["a", "b"]);
    }
}
