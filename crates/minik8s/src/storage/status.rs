//! `minik8s storage status`: what the nodes say of shared storage, as one page.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Context;
use http::Request;
use kube::Client;
use minik8s_meta::shared_storage::{ClusterStatus, NODE_PATH, SharedNodeStatus, SharedStorage};

use crate::output;

/// How long a node may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

const GIB: f64 = (1_u64 << 30) as f64;

pub async fn show(client: &Client) -> anyhow::Result<()> {
    let Some(setup) = super::read(client).await? else {
        output::line("shared: not enabled (`minik8s storage enable shared --nodes NODE,...`)")?;
        return Ok(());
    };
    // A machine that is lost keeps nobody waiting for the others.
    let told = setup.servers.iter().map(|server| async {
        let told = of_node(client, &server.node).await.map_err(|error| error.to_string());
        (server.node.clone(), told)
    });
    let told = futures::future::join_all(told).await;
    Ok(output::words(&page(&setup, &told))?)
}

/// What one node says. The client would try again for minutes where the node cannot be reached.
pub async fn of_node(client: &Client, node: &str) -> anyhow::Result<SharedNodeStatus> {
    let path = format!("/api/v1/nodes/{node}/proxy/{NODE_PATH}");
    let asked = client.request_text(Request::get(path).body(Vec::new())?);
    let text = tokio::time::timeout(TIMEOUT, asked).await.context("no answer in time")??;
    Ok(serde_json::from_str(&text)?)
}

/// Pure.
fn page(setup: &SharedStorage, told: &[(String, Result<SharedNodeStatus, String>)]) -> String {
    let mut text = String::new();
    let cluster = told.iter().find_map(|(_, told)| told.as_ref().ok()?.cluster.as_ref());
    let _ = writeln!(text, "shared: {}", verdict(setup, cluster, told));
    let _ = writeln!(text, "  copies  {} of each piece of data", setup.copies);
    if let Some(cluster) = cluster {
        let (free, total) = (cluster.free_bytes as f64 / GIB, cluster.total_bytes as f64 / GIB);
        let _ = writeln!(text, "  space   {free:.1} of {total:.1} GiB free");
    }
    for (node, told) in told {
        let role = if *node == setup.master.node { "master, data" } else { "data, metadata log" };
        let said = match told {
            Err(error) => format!("does not answer: {error}"),
            Ok(told) => daemons(told),
        };
        let _ = writeln!(text, "  {node:<14} {role:<19} {said}");
    }
    text
}

/// What matters most, in a few words.
fn verdict(
    setup: &SharedStorage,
    cluster: Option<&ClusterStatus>,
    told: &[(String, Result<SharedNodeStatus, String>)],
) -> String {
    let is_down = |told: &Result<SharedNodeStatus, String>| match told {
        Ok(told) => told.problem.is_some() || told.daemons.iter().any(|one| one.pid.is_none()),
        Err(_) => true,
    };
    match cluster {
        None => format!(
            "the master on {0} does not answer: volumes wait. If its machine is lost: minik8s storage recover shared --master NODE",
            setup.master.node
        ),
        Some(cluster) if cluster.missing > 0 => {
            format!(
                "{} pieces of data are on no server that is there: bring the others back",
                cluster.missing
            )
        }
        Some(cluster) if cluster.under_goal > 0 || cluster.servers.len() < setup.servers.len() => format!(
            "degraded: {} of {} servers are there, {} pieces of data have fewer copies than wanted",
            cluster.servers.len(),
            setup.servers.len(),
            cluster.under_goal
        ),
        Some(_) if told.iter().any(|(_, told)| is_down(told)) => "degraded".to_owned(),
        Some(cluster) if is_nearly_full(cluster) => {
            "nearly full: writes fail when no space is left; delete volumes or add disks".to_owned()
        }
        Some(_) => "healthy".to_owned(),
    }
}

/// Less than a twentieth is free.
fn is_nearly_full(cluster: &ClusterStatus) -> bool {
    cluster.free_bytes < cluster.total_bytes / 20
}

fn daemons(told: &SharedNodeStatus) -> String {
    let shown = told.daemons.iter().map(|one| match (one.pid, one.resident_kib) {
        (Some(_), Some(kib)) => format!("{} {} MB", one.name, kib / 1024),
        (Some(_), None) => one.name.clone(),
        (None, _) => format!("{} is down", one.name),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match &told.problem {
        Some(problem) => format!("{shown} ({problem})"),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use minik8s_meta::shared_storage::{DaemonStatus, SharedServer};

    use super::*;

    #[test]
    fn page_says_what_is_not_whole() {
        let server = |node: &str| SharedServer { node: node.into(), address: "10.0.0.1".into() };
        let setup = SharedStorage {
            id: "i".into(),
            master: server("a"),
            servers: vec![server("a"), server("b")],
            copies: 2,
            password: String::new(),
            auth_code: String::new(),
        };
        let daemon =
            |name: &str, pid| DaemonStatus { name: name.into(), pid, resident_kib: pid.map(|_| 2048) };
        let cluster = |servers: usize, under_goal, missing| ClusterStatus {
            servers: vec![String::new(); servers],
            total_bytes: 4 << 30,
            free_bytes: 3 << 30,
            under_goal,
            missing,
        };
        let told = |cluster: Option<ClusterStatus>, pid| {
            let a = SharedNodeStatus {
                id: Some("i".into()),
                daemons: vec![daemon("mfsmaster", Some(1))],
                cluster,
                ..Default::default()
            };
            let b = SharedNodeStatus { daemons: vec![daemon("mfschunkserver", pid)], ..Default::default() };
            vec![("a".to_owned(), Ok(a)), ("b".to_owned(), Ok(b))]
        };
        let check = |told: &[(String, Result<SharedNodeStatus, String>)], expected: &[&str]| {
            let page = page(&setup, told);
            expected.iter().for_each(|line| assert!(page.contains(line), "{line} in\n{page}"));
        };
        check(
            &told(Some(cluster(2, 0, 0)), Some(2)),
            &["shared: healthy", "3.0 of 4.0 GiB free", "mfsmaster 2 MB"],
        );
        let full = ClusterStatus { free_bytes: 0, ..cluster(2, 0, 0) };
        check(&told(Some(full), Some(2)), &["shared: nearly full", "0.0 of 4.0 GiB free"]);
        check(
            &told(Some(cluster(1, 7, 0)), None),
            &["degraded: 1 of 2 servers", "7 pieces", "mfschunkserver is down"],
        );
        check(&told(Some(cluster(1, 7, 3)), None), &["3 pieces of data are on no server"]);
        check(&told(None, Some(2)), &["the master on a does not answer", "recover shared"]);
        check(&[("a".to_owned(), Err("timeout".to_owned()))], &["does not answer: timeout"]);
    }
}
