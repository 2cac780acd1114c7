//! One look at a cluster: whether it can be reached, its partitions, its free GPUs.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::kinds::{Gpus, PartitionStatus, SlurmCluster, SlurmClusterStatus};
use crate::remote::{PROBE, Remote};

const LIMIT: Duration = Duration::from_secs(75);

pub async fn run(
    api: &Api<SlurmCluster>,
    cluster: &SlurmCluster,
    connection: Result<Remote, String>,
) -> anyhow::Result<()> {
    let found = match connection {
        Ok(Remote::Ssh(ssh)) => {
            let said = ssh.run(PROBE, &[], LIMIT).await.map_err(|failure| failure.to_string());
            said.and_then(|text| read(&String::from_utf8_lossy(&text)))
        }
        Ok(Remote::Rest(rest)) => rest.probe().await.map_err(|failure| failure.to_string()),
        Err(problem) => Err(problem),
    };
    let (mut status, condition) = match found {
        Ok(status) => (status, ("True", "Reachable", String::new())),
        // What was known stays known.
        Err(problem) => (cluster.status.clone().unwrap_or_default(), ("False", "Unreachable", problem)),
    };
    let now = Timestamp::now();
    status.observed_generation = cluster.metadata.generation;
    status.last_probe_time = Some(Time(now));
    status.conditions = vec![Condition {
        type_: "Reachable".to_owned(),
        status: condition.0.to_owned(),
        reason: condition.1.to_owned(),
        message: condition.2,
        last_transition_time: Time(now),
        observed_generation: cluster.metadata.generation,
    }];
    let patch = json!({"metadata": {"uid": cluster.metadata.uid}, "status": status});
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Reads what [`PROBE`] printed.
fn read(text: &str) -> Result<SlurmClusterStatus, String> {
    let mut sections: BTreeMap<&str, (i32, Vec<&str>)> = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("@@") {
            let (name, code) = head.split_once(' ').unwrap_or((head, "0"));
            current = name;
            sections.insert(name, (code.parse().unwrap_or(-1), Vec::new()));
        } else if let (Some((_, lines)), Some(line)) = (sections.get_mut(current), line.strip_prefix(' ')) {
            lines.push(line);
        }
    }
    let section = |name: &str| match sections.get(name) {
        Some((0, lines)) => Ok(lines.clone()),
        Some((127, _)) => {
            Err("there is no Slurm: sinfo is not in the user's PATH on the login node".to_owned())
        }
        Some((124, _)) => Err("Slurm's controller does not answer".to_owned()),
        Some((_, lines)) => Err(lines.join(" ")),
        None => Err("the login node said something else than was asked".to_owned()),
    };
    let version = section("version")?.first().map(|line| line.trim().to_owned());
    let nodes = section("nodes")?;
    let mut seen = BTreeMap::new();
    let mut of_partitions: BTreeMap<String, Gpus> = BTreeMap::new();
    for line in nodes {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [node, partition, state, gres, used] = words[..] else { continue };
        let usable = !["down", "drain", "fail", "inval", "unk"].iter().any(|bad| state.contains(bad));
        let total = if usable { gpus(gres) } else { 0 };
        let counted = Gpus { free: (total - gpus(used)).max(0), total };
        let sum = of_partitions.entry(partition.trim_end_matches('*').to_owned()).or_default();
        *sum = Gpus { free: sum.free + counted.free, total: sum.total + counted.total };
        // A node may be in several partitions.
        seen.insert(node.to_owned(), counted);
    }
    let partitions = section("partitions")?.into_iter().filter_map(|line| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, state, limit, nodes] = fields[..] else { return None };
        Some(PartitionStatus {
            name: name.to_owned(),
            state: state.to_owned(),
            nodes: nodes.parse().unwrap_or(0),
            time_limit: limit.to_owned(),
            gpus: of_partitions.get(name).copied().unwrap_or_default(),
        })
    });
    let sum = |pick: fn(&Gpus) -> i64| seen.values().map(pick).sum();
    Ok(SlurmClusterStatus {
        version,
        gpus: Some(Gpus { free: sum(|gpus| gpus.free), total: sum(|gpus| gpus.total) }),
        partitions: partitions.collect(),
        ..SlurmClusterStatus::default()
    })
}

/// `gpu:v100:4(S:0),shard:2` has 4, `gpu:v100:1(IDX:0)` has 1.
pub fn gpus(gres: &str) -> i64 {
    // Commas also stand between devices in brackets.
    let mut depth = 0;
    let split = gres.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    let counts = split.filter_map(|part| {
        let part = part.split('(').next()?;
        let (name, count) = part.rsplit_once(':')?;
        (name == "gpu" || name.starts_with("gpu:")).then(|| count.parse::<i64>().ok())?
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted() {
        let check = |gres: &str, count: i64| assert_eq!(gpus(gres), count, "{gres}");
        check("gpu:v100:4", 4);
        check("gpu:4", 4);
        check("gpu:v100:4(S:0-1)", 4);
        check("gpu:v100:2(IDX:0,3),gpu:a100:1(IDX:1)", 3);
        check("(null)", 0);
        check("shard:8,gpu:a100:1", 1);
    }

    #[test]
    fn a_cluster_is_read() {
        let text = "@@version 0\n slurm-wlm 22.05.8\n@@partitions 0\n dgx2|up|1:00:00|2\n@@nodes 0
 dgx01   dgx2*   mixed   gpu:v100:4   gpu:v100:3(IDX:0-2)
 dgx02   dgx2*   idle    gpu:v100:4   gpu:v100:0(IDX:N/A)
 dgx02   other   idle    gpu:v100:4   gpu:v100:0(IDX:N/A)
 dgx03   dgx2*   drained gpu:v100:4   gpu:v100:0(IDX:N/A)\n";
        let status = read(text).unwrap();
        assert_eq!(status.gpus, Some(Gpus { free: 5, total: 8 }));
        assert_eq!(status.partitions[0].gpus, Gpus { free: 5, total: 8 });
        assert_eq!(status.version.as_deref(), Some("slurm-wlm 22.05.8"));
        assert!(read("@@version 127\n sinfo: not found\n").unwrap_err().contains("no Slurm"));
        assert!(read("hello\n").is_err());
    }
}
