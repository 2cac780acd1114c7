//! What a cluster has, by slurmrestd.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::Failure;
use super::Rest;
use crate::kinds::{Gpus, PartitionStatus, SlurmClusterStatus};
use crate::program::gpus;

impl Rest {
    pub async fn probe(&self) -> Result<SlurmClusterStatus, Failure> {
        let partitions = self.get("/slurm/v0.0.38/partitions").await?;
        let nodes = self.get("/slurm/v0.0.38/nodes").await?;
        Ok(read(&partitions, &nodes))
    }
}

fn read(partitions: &Value, nodes: &Value) -> SlurmClusterStatus {
    let (mut all, mut of_partitions) = (Gpus::default(), BTreeMap::<&str, Gpus>::new());
    for node in nodes["nodes"].as_array().into_iter().flatten() {
        let states = node["state_flags"].as_array().into_iter().flatten().chain([&node["state"]]);
        let mut states = states.map(|state| state.as_str().unwrap_or_default().to_ascii_lowercase());
        let bad = ["down", "drain", "fail", "inval", "unk"];
        let total = match states.any(|state| bad.iter().any(|bad| state.contains(bad))) {
            true => 0,
            false => gpus(node["gres"].as_str().unwrap_or_default()),
        };
        let free = (total - gpus(node["gres_used"].as_str().unwrap_or_default())).max(0);
        let in_partitions = node["partitions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in in_partitions {
            let sum = of_partitions.entry(name).or_default();
            *sum = Gpus { free: sum.free + free, total: sum.total + total };
        }
        all = Gpus { free: all.free + free, total: all.total + total };
    }
    let partitions_of = partitions["partitions"].as_array().into_iter().flatten();
    let partitions_of = partitions_of.filter_map(|partition| {
        let name = partition["name"].as_str()?;
        let limit = partition["max_time_limit"].as_i64().filter(|minutes| *minutes > 0);
        Some(PartitionStatus {
            name: name.to_owned(),
            state: partition["state"].as_str().unwrap_or_default().to_ascii_lowercase(),
            nodes: partition["total_nodes"].as_i64().unwrap_or_default(),
            time_limit: limit.map_or_else(|| "infinite".to_owned(), |minutes| format!("{minutes}:00")),
            gpus: of_partitions.get(name).copied().unwrap_or_default(),
        })
    });
    let version = partitions["meta"]["Slurm"]["release"].as_str().map(|release| format!("slurm {release}"));
    SlurmClusterStatus {
        version,
        gpus: Some(all),
        partitions: partitions_of.collect(),
        ..SlurmClusterStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_read() {
        let node = |state: &str, flags: &[&str], used: &str| json!({"state": state, "state_flags": flags, "gres": "gpu:v100:4", "gres_used": used, "partitions": ["dgx2"]});
        let nodes = json!({"nodes": [
            node("mixed", &[], "gpu:v100:3(IDX:0-2)"), node("idle", &[], "gpu:v100:0(IDX:N/A)"),
            node("idle", &["DRAIN"], "gpu:v100:0(IDX:N/A)"),
        ]});
        let partitions = json!({"meta": {"Slurm": {"release": "22.05.8"}}, "partitions": [
            {"name": "dgx2", "state": "UP", "total_nodes": 3, "max_time_limit": 60},
        ]});
        let status = read(&partitions, &nodes);
        assert_eq!(status.gpus, Some(Gpus { free: 5, total: 8 }));
        assert_eq!((status.partitions[0].gpus.free, status.partitions[0].state.as_str()), (5, "up"));
        assert_eq!(status.version.as_deref(), Some("slurm 22.05.8"));
    }
}
