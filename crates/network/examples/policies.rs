//! How long NetworkPolicies take to get into the kernel: 10,000 pods and 1,000 policies, all pods on this node, which is far
//! worse than a cluster where they are spread; then one changed pod, from the event to the kernel. Run it as root in a
//! network namespace of its own: `unshare -n`.

#[allow(dead_code, reason = "another measurement uses the rest")]
#[path = "dns_bench/process.rs"]
mod process;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use minik8s_meta::IpFamily;
use minik8s_network::policy::{NamedPort, Pod, Policy, PolicyTable, Protocol};
use minik8s_network::proxy::{Nft, diff};
use process::verdict;
use serde_json::json;

const PODS: u32 = 10_000;
const POLICIES: u32 = 1_000;
const NAMESPACES: u32 = 100;
const CHANGES: u32 = 50;
/// The agent waits so long for further events before it changes rules.
const GATHER_MS: f64 = 5.0;
const TABLE: &str = "minik8s-bench-policies";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let policies: Vec<Policy> = (0..POLICIES).map(policy).collect::<Result<_>>()?;
    let pods: Vec<Pod> = (0..PODS).map(|number| pod(number, "1")).collect();
    let started = Instant::now();
    let mut table = PolicyTable::new(IpFamily::V4, TABLE, "node", Some([10, 96, 0, 10].into()));
    for number in 0..NAMESPACES {
        let labels = [("team".to_owned(), (number % 10).to_string())];
        table.set_namespace(&namespace(number), Some(labels.into()));
    }
    pods.iter().for_each(|pod| table.set_pod(pod.clone()));
    policies.iter().for_each(|policy| table.set_policy(policy.clone()));
    table.take_change();
    let wanted = table.ruleset();
    let (isolated, peers) = table.sizes();
    println!("planned in {:.2?}: {isolated} pods isolated, {peers} peers in sets", started.elapsed());
    Nft.apply(&wanted.to_string()).await?;
    verdict("load 10,000 pods x 1,000 NetworkPolicies", started.elapsed().as_secs_f64(), "s", 2.0);
    let started = Instant::now();
    let found = Nft.list(IpFamily::V4, TABLE).await?.into_ruleset(&wanted).context("the table is ours")?;
    let change = diff(&found, &wanted).context("maps are of the same types")?;
    ensure!(change.is_empty(), "a new start would change what is there:\n{change}");
    verdict("a new start: read them and find nothing to change", started.elapsed().as_secs_f64(), "s", 2.0);
    let mut times: Vec<Duration> = Vec::new();
    for number in 0..CHANGES {
        let started = Instant::now();
        table.set_pod(pod(number * 7, "2"));
        let change = table.take_change();
        ensure!(!change.is_empty(), "a relabelled pod changes nothing");
        Nft.apply(&change.to_string()).await?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3 + GATHER_MS;
    verdict("change one pod, from watch event to kernel", milliseconds(times[times.len() / 2]), "ms", 30.0);
    verdict("the slowest of 50 such changes", milliseconds(times[times.len() - 1]), "ms", 30.0);
    Nft.delete_table(IpFamily::V4, TABLE).await?;
    Ok(())
}

fn namespace(number: u32) -> String {
    format!("team-{number}")
}

fn pod(number: u32, version: &str) -> Pod {
    let labels = [
        ("app".to_owned(), (number / NAMESPACES % 10).to_string()),
        ("version".to_owned(), version.to_owned()),
    ];
    Pod {
        namespace: namespace(number % NAMESPACES),
        name: format!("pod-{number}"),
        labels: labels.into(),
        node: "node".to_owned(),
        addresses: vec![[10, 244, (number / 250) as u8, (number % 250) as u8 + 1].into()],
        ports: vec![NamedPort { name: "http".to_owned(), protocol: Protocol::Tcp, number: 8080 }],
        ..Pod::default()
    }
}

/// Ten per namespace, one for each app: from two apps of its namespace, from another team, to the same and to DNS.
fn policy(number: u32) -> Result<Policy> {
    let app = number / NAMESPACES;
    let peers = json!([
        {"podSelector": {"matchLabels": {"app": ((app + 1) % 10).to_string()}}},
        {"podSelector": {"matchLabels": {"app": ((app + 2) % 10).to_string(), "version": "2"}}},
        {"namespaceSelector": {"matchLabels": {"team": (app % 10).to_string()}}, "podSelector": {"matchLabels": {"app": app.to_string()}}},
    ]);
    let object = json!({
        "metadata": {"namespace": namespace(number % NAMESPACES), "name": format!("policy-{number}")},
        "spec": {
            "podSelector": {"matchLabels": {"app": app.to_string()}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers, "ports": [{"port": "http"}, {"port": 9000 + app, "endPort": 9100 + app}]}],
            "egress": [{"to": peers}, {"ports": [{"port": 53, "protocol": "UDP"}]}],
        },
    });
    Ok(Policy::from(&serde_json::from_value::<NetworkPolicy>(object)?))
}
