//! What a set-up of shared storage becomes. Pure but for new passwords.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Node;
use minik8s_meta::shared_storage::{SharedNodeStatus, SharedServer, SharedStorage};
use uuid::Uuid;

/// How Kubernetes is told that a machine is dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A new one, or that which there is with more nodes or other copies.
pub fn planned(
    nodes: &[Node],
    names: &[String],
    copies: Option<u32>,
    before: Option<&SharedStorage>,
) -> anyhow::Result<SharedStorage> {
    let mut seen = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
        bail!("the node {name} is named twice");
    }
    let mut servers: Vec<SharedServer> = Vec::new();
    for name in names {
        servers.push(server(nodes, name)?);
    }
    let first = servers.first().context("give at least one node")?.clone();
    if let Some(before) = before {
        let gone = before.servers.iter().find(|old| !names.contains(&old.node));
        if let Some(gone) = gone {
            bail!("the node {} holds data and is not named: nodes can be added, not taken away", gone.node);
        }
    }
    let most = u32::try_from(servers.len()).unwrap_or(u32::MAX);
    let copies = copies.or(before.map(|before| before.copies)).unwrap_or(most.min(2));
    if copies == 0 || copies > most.min(9) {
        bail!("--copies {copies} is not possible with {most} nodes: give 1 to {}", most.min(9));
    }
    Ok(match before {
        Some(before) => SharedStorage { servers, copies, ..before.clone() },
        None => {
            SharedStorage { id: word(), master: first, servers, copies, password: word(), auth_code: word() }
        }
    })
}

/// The same with another master.
pub fn recovered(nodes: &[Node], master: &str, before: &SharedStorage) -> anyhow::Result<SharedStorage> {
    if before.master.node == master {
        bail!("{master} is the master already");
    }
    if !before.servers.iter().any(|server| server.node == master) {
        let names: Vec<&str> = before.servers.iter().map(|server| server.node.as_str()).collect();
        bail!("{master} has logged nothing of it: name one of {}", names.join(", "));
    }
    Ok(SharedStorage { master: server(nodes, master)?, ..before.clone() })
}

/// Two masters would each go on with names of their own, and those of one be lost.
pub fn check_master_is_dead(
    nodes: &[Node],
    before: &SharedStorage,
    told: Option<&SharedNodeStatus>,
) -> anyhow::Result<()> {
    let name = before.master.node.as_str();
    let anyway = "--force does it anyway, and loses what was written there meanwhile";
    if told.is_some_and(|told| told.cluster.is_some()) {
        bail!("the master on {name} answers: nothing has to be recovered ({anyway})");
    }
    let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
    let mut taints = node.and_then(|node| node.spec.as_ref()?.taints.as_ref()).into_iter().flatten();
    let is_out_of_service = taints.any(|taint| taint.key == OUT_OF_SERVICE);
    if node.is_some_and(is_ready) && !is_out_of_service {
        bail!(
            "the node {name} of the master is ready: its agent starts the master again. If it never will, say so: \
             `kubectl taint node {name} {OUT_OF_SERVICE}=nodeshutdown:NoExecute` ({anyway})"
        );
    }
    Ok(())
}

/// One that has not heard of the last master yet has nothing of what that did.
pub fn check_has_logged(name: &str, before: &SharedStorage, told: &SharedNodeStatus) -> anyhow::Result<()> {
    let logs = told.daemons.iter().any(|daemon| daemon.name == "mfsmetalogger");
    if told.id.as_deref() != Some(&*before.id) || !logs {
        bail!("{name} has not logged what the master on {} did: name another node", before.master.node);
    }
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

fn server(nodes: &[Node], name: &str) -> anyhow::Result<SharedServer> {
    let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
    let node =
        node.with_context(|| format!("no node {name:?}: `kubectl get nodes` lists those that there are"))?;
    if !is_ready(node) {
        bail!("the node {name} is not ready");
    }
    let status = node.status.clone().unwrap_or_default();
    let address = status.addresses.into_iter().flatten().find(|one| one.type_ == "InternalIP");
    let address = address.with_context(|| format!("the node {name} has no address"))?.address;
    if address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
        bail!(
            "the node {name} has the address {address}, which no other machine reaches: start it with --node-ip"
        );
    }
    Ok(SharedServer { node: name.to_owned(), address })
}

fn word() -> String {
    Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use minik8s_meta::shared_storage::{ClusterStatus, DaemonStatus};
    use serde_json::json;

    use super::*;

    fn nodes() -> Vec<Node> {
        let node = |name: &str, address: &str, ready: &str| {
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {
                "conditions": [{"type": "Ready", "status": ready}],
                "addresses": [{"type": "InternalIP", "address": address}]}}))
            .unwrap()
        };
        vec![node("a", "10.0.0.1", "True"), node("b", "10.0.0.2", "True"), node("c", "10.0.0.3", "False")]
    }

    fn plan(
        names: &[&str],
        copies: Option<u32>,
        before: Option<&SharedStorage>,
    ) -> anyhow::Result<SharedStorage> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        planned(&nodes(), &names, copies, before)
    }

    #[test]
    fn setup_is_planned_and_only_grows() {
        let one = plan(&["a"], None, None).unwrap();
        assert_eq!((one.master.node.as_str(), one.copies), ("a", 1));
        let both = plan(&["b", "a"], None, None).unwrap();
        assert_eq!((both.master.address.as_str(), both.copies, both.servers.len()), ("10.0.0.2", 2, 2));
        assert!(both.password != both.auth_code && both.password != one.password && both.password.len() > 20);
        // The same set-up with one node more; its data stays where it is.
        let grown = plan(&["b", "a"], Some(2), Some(&one)).unwrap();
        assert_eq!((grown.id, grown.master.node.as_str(), grown.copies), (one.id.clone(), "a", 2));
        let moved = recovered(&nodes(), "a", &both).unwrap();
        assert_eq!((moved.master.node.as_str(), moved.id == both.id), ("a", true));
    }

    #[test]
    fn setup_that_cannot_be_says_why() {
        let check = |found: anyhow::Result<SharedStorage>, expected: &str| {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let both = plan(&["a", "b"], None, None).unwrap();
        check(plan(&["x"], None, None), "no node \"x\"");
        check(plan(&["c"], None, None), "is not ready");
        check(plan(&["a", "a"], None, None), "named twice");
        check(plan(&["a"], Some(2), None), "give 1 to 1");
        check(plan(&["a", "b"], Some(0), None), "give 1 to 2");
        check(plan(&["a"], None, Some(&both)), "can be added, not taken away");
        check(recovered(&nodes(), "a", &both), "already");
        check(recovered(&nodes(), "x", &both), "has logged nothing");
    }

    #[test]
    fn master_that_may_live_is_not_replaced() {
        let before = plan(&["a", "b"], None, None).unwrap();
        let check = |ready: &str, taint: &str, told: Option<&SharedNodeStatus>, expected: Option<&str>| {
            let mut nodes = nodes();
            nodes[0] = serde_json::from_value(json!({"metadata": {"name": "a"},
                "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap();
            let error = check_master_is_dead(&nodes, &before, told).err().map(|error| error.to_string());
            let is_expected = match (expected, &error) {
                (Some(expected), Some(error)) => error.contains(expected),
                (expected, error) => expected.is_none() && error.is_none(),
            };
            assert!(is_expected, "{ready} {taint}: {error:?}");
        };
        let answers = SharedNodeStatus { cluster: Some(ClusterStatus::default()), ..Default::default() };
        let is_down = SharedNodeStatus::default();
        check("Unknown", "x", None, None);
        check("True", "x", None, Some("is ready"));
        check("True", "x", Some(&is_down), Some("--force"));
        check("True", OUT_OF_SERVICE, Some(&is_down), None);
        check("True", OUT_OF_SERVICE, Some(&answers), Some("answers"));
        check("Unknown", "x", Some(&answers), Some("answers"));
        // A node that was taken out of the cluster.
        assert!(check_master_is_dead(&[], &before, None).is_ok());
    }

    #[test]
    fn node_that_logs_nothing_becomes_no_master() {
        let before = plan(&["a", "b"], None, None).unwrap();
        let told = |id: &str, daemon: &str| SharedNodeStatus {
            id: Some(id.to_owned()),
            daemons: vec![DaemonStatus { name: daemon.to_owned(), pid: None, resident_kib: None }],
            ..Default::default()
        };
        let check = |told: &SharedNodeStatus| check_has_logged("b", &before, told).is_ok();
        assert!(check(&told(&before.id, "mfsmetalogger")));
        assert!(!check(&told(&before.id, "mfsmaster")));
        assert!(!check(&told("other", "mfsmetalogger")));
        assert!(!check(&SharedNodeStatus::default()));
    }
}
