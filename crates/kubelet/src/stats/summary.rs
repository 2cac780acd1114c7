//! `/stats/summary`. Pure.

use serde_json::{Value, json};

use super::collect::{ClaimSample, NodeSample, PodSample};
use super::network::Traffic;
use crate::cgroup::Usage;

pub fn summary(sample: &NodeSample) -> Value {
    let time = seconds(sample.time);
    let mut memory = memory(&sample.usage, &time);
    memory["availableBytes"] = sample.memory_total.saturating_sub(sample.usage.working_set).into();
    let fs = json!({
        "time": time,
        "availableBytes": sample.disk.available,
        "capacityBytes": sample.disk.capacity,
        "usedBytes": sample.disk.capacity.saturating_sub(sample.disk.available),
        "inodes": sample.disk.inodes,
        "inodesFree": sample.disk.inodes_free,
        "inodesUsed": sample.disk.inodes.saturating_sub(sample.disk.inodes_free),
    });
    json!({
        "node": {
            "nodeName": sample.node,
            "startTime": seconds(sample.booted),
            "cpu": cpu(&sample.usage, sample.cpu_rate, &time),
            "memory": memory,
            "network": network(&sample.traffic, &time),
            "fs": fs,
            "runtime": {"imageFs": fs},
            "rlimit": {"time": time, "curproc": sample.usage.processes},
        },
        "pods": sample.pods.iter().map(|pod| pod_summary(pod, &time)).collect::<Vec<_>>(),
    })
}

fn pod_summary(pod: &PodSample, time: &str) -> Value {
    let containers: Vec<_> = pod
        .containers
        .iter()
        .map(|c| {
            json!({
                "name": c.name,
                "startTime": seconds(c.started),
                "cpu": cpu(&c.usage, c.cpu_rate, time),
                "memory": memory(&c.usage, time),
            })
        })
        .collect();
    json!({
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": seconds(pod.started),
        "containers": containers,
        "cpu": cpu(&pod.usage, pod.cpu_rate, time),
        "memory": memory(&pod.usage, time),
        "network": network(&pod.traffic, time),
        "process_stats": {"process_count": pod.usage.processes},
        "volume": pod.claims.iter().map(|claim| volume(pod, claim, time)).collect::<Vec<_>>(),
    })
}

fn volume(pod: &PodSample, claim: &ClaimSample, time: &str) -> Value {
    let disk = &claim.disk;
    json!({
        "name": claim.volume,
        "pvcRef": {"name": claim.claim, "namespace": pod.namespace},
        "time": time,
        "capacityBytes": disk.capacity,
        "availableBytes": disk.available,
        "usedBytes": disk.capacity.saturating_sub(disk.available),
        "inodes": disk.inodes,
        "inodesFree": disk.inodes_free,
        "inodesUsed": disk.inodes.saturating_sub(disk.inodes_free),
    })
}

fn cpu(usage: &Usage, rate: Option<u64>, time: &str) -> Value {
    let mut cpu = json!({"time": time, "usageCoreNanoSeconds": usage.cpu});
    if let Some(rate) = rate {
        cpu["usageNanoCores"] = rate.into();
    }
    cpu
}

fn memory(usage: &Usage, time: &str) -> Value {
    json!({
        "time": time,
        "usageBytes": usage.memory,
        "workingSetBytes": usage.working_set,
        "rssBytes": usage.rss,
        "pageFaults": usage.page_faults,
        "majorPageFaults": usage.major_page_faults,
    })
}

fn network(traffic: &[Traffic], time: &str) -> Value {
    let one = |t: &Traffic| {
        json!({"name": t.interface, "rxBytes": t.received, "rxErrors": t.receive_errors,
            "txBytes": t.sent, "txErrors": t.send_errors})
    };
    let interfaces: Vec<_> = traffic.iter().map(one).collect();
    let mut network = traffic.first().map_or_else(|| json!({}), one);
    network["time"] = time.into();
    network["interfaces"] = interfaces.into();
    network
}

fn seconds(time: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let page = summary(&super::super::resource::tests::node());
        insta::assert_snapshot!(format!("{page:#}"));
    }
}
