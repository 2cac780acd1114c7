//! What is on the nodes when all is over must be what the API says, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use minik8s_kubelet::Config;
use minik8s_kubelet::cri::{Cri, Runtime};
use serde_json::Value;

use super::work;
use crate::harness::lab::Lab;

/// Whatever belongs to a pod that the API does not know on that node, and pods of which nothing is there.
pub async fn find(lab: &Lab, nodes: u32) -> Vec<String> {
    let pods = lab.get(&["pods", "-A"]);
    let mut found = Vec::new();
    if pods.is_empty() {
        found.push("no pods at all".to_owned());
    }
    // What is left of pods that are over may be there or not.
    let over: BTreeSet<String> =
        pods.iter().filter(|pod| work::is_over(pod)).map(|pod| text(&pod["metadata"]["uid"])).collect();
    for number in 1..=nodes {
        let node = format!("node{number}");
        let here: BTreeMap<String, String> = pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == node.as_str())
            .map(|pod| (text(&pod["metadata"]["uid"]), text(&pod["status"]["podIP"])))
            .collect();
        for leak in on_node(lab, &node, &here, &pods).await {
            if over.iter().any(|uid| leak == no_container(uid)) {
                continue;
            }
            found.push(format!("{node}: {leak}"));
        }
    }
    found
}

async fn on_node(lab: &Lab, node: &str, here: &BTreeMap<String, String>, pods: &[Value]) -> Vec<String> {
    let data = lab.dir.join(node).join("data");
    let config = Config::new(node, &data, Ipv4Addr::LOCALHOST.into());
    let mut found = Vec::new();
    match Cri::new(&config.cri_socket()).pod_uids().await {
        Ok(uids) => {
            let uids: BTreeSet<String> = uids.into_iter().collect();
            found.extend(
                uids.iter().filter(|uid| !here.contains_key(*uid)).map(|uid| format!("container of {uid}")),
            );
            found.extend(here.keys().filter(|uid| !uids.contains(*uid)).map(|uid| no_container(uid)));
        }
        Err(error) => found.push(format!("containerd does not answer: {error}")),
    }
    for name in names(&config.pods_dir()).into_iter().filter(|uid| !here.contains_key(uid)) {
        found.push(format!("directory of pod {name}"));
    }
    let given: BTreeSet<&str> = here.values().map(String::as_str).collect();
    for address in addresses(&config.cni_dir().join("state")) {
        if !given.contains(address.as_str()) {
            found.push(format!("address {address}"));
        }
    }
    found.extend(cgroups(lab, node, &config, here));
    let mounts = lab.run(&["exec", node, "cat", "/proc/1/mounts"]);
    let of_pods = format!("{}/", config.pods_dir().display());
    for line in mounts.lines() {
        if let Some((_, rest)) = line.split_once(&of_pods)
            && !here.contains_key(rest.split('/').next().unwrap_or_default())
        {
            found.push(format!("mount {line}"));
        }
    }
    found.extend(rules(lab, node, pods));
    found
}

/// Backends in the packet filter's rules that are no pod's address.
fn rules(lab: &Lab, node: &str, pods: &[Value]) -> Vec<String> {
    let live: BTreeSet<String> = pods.iter().map(|pod| text(&pod["status"]["podIP"])).collect();
    let rules = lab.run(&["exec", node, "nft", "list", "ruleset"]);
    let words = rules.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '/'));
    let hosts = words.filter_map(|word| word.parse::<Ipv4Addr>().ok());
    let of_pods = hosts.filter(|ip| ip.octets()[..2] == [10, 244] && !matches!(ip.octets()[3], 0 | 1 | 255));
    let stale: BTreeSet<String> =
        of_pods.map(|ip| ip.to_string()).filter(|address| !live.contains(address)).collect();
    stale.into_iter().map(|address| format!("rule for {address}")).collect()
}

fn cgroups(lab: &Lab, node: &str, config: &Config, here: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for controller in ["memory", "cpu", "pids", ""] {
        let root = Path::new("/sys/fs/cgroup").join(controller).join(lab.name()).join(node);
        let root = root.join(&config.cgroup_root()[1..]);
        for class in ["", "burstable", "besteffort"] {
            let dir: PathBuf = root.join(class);
            let pods = names(&dir).into_iter().filter_map(|name| name.strip_prefix("pod").map(str::to_owned));
            found.extend(
                pods.filter(|uid| !here.contains_key(uid))
                    .map(|uid| format!("cgroup of {uid} in {}", dir.display())),
            );
        }
    }
    found
}

fn no_container(uid: &str) -> String {
    format!("no container of {uid}")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The addresses that are given out: a file each.
fn addresses(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for network in names(directory) {
        let files = names(&directory.join(network));
        found.extend(files.into_iter().filter(|name| name.parse::<Ipv4Addr>().is_ok()));
    }
    found
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
