//! What a set-up of shared storage becomes. Pure but for new passwords.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Node;
use minik8s_meta::shared_storage::{SharedServer, SharedStorage};
use uuid::Uuid;

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

fn server(nodes: &[Node], name: &str) -> anyhow::Result<SharedServer> {
    let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
    let node =
        node.with_context(|| format!("no node {name:?}: `kubectl get nodes` lists those that there are"))?;
    let status = node.status.clone().unwrap_or_default();
    let is_ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    if !is_ready {
        bail!("the node {name} is not ready");
    }
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
}
