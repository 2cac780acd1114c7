//! Which NetworkPolicies allow or deny a connection.
//!
//! It says what policies mean, not what the network does: that a pod listens there, or that a node is reached, is not
//! looked at.

use std::net::IpAddr;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{Client, ResourceExt};
use minik8s_meta::pod_address::PodAddress;
use minik8s_network::policy::{Cluster, Connection, Party, Pod as PolicyPod, Policy, Protocol, explain};

use super::all;
use crate::output;

pub async fn run(client: &Client, namespace: &str, from: &str, to: &str) -> anyhow::Result<()> {
    let target = target(to)?;
    let mut cluster = Cluster::default();
    for policy in all::<NetworkPolicy>(client).await? {
        let policy = Policy::from(&*policy);
        cluster.policies.insert((policy.namespace.clone(), policy.name.clone()), policy);
    }
    for one in all::<Namespace>(client).await? {
        cluster.namespaces.insert(one.name_any(), one.metadata.labels.clone().unwrap_or_default());
    }
    for pod in all::<Pod>(client).await? {
        let address = PodAddress::of(&serde_json::to_value(&*pod)?);
        let pod = PolicyPod::from(&serde_json::from_value::<PodAddress>(address)?);
        cluster.pods.insert(pod.key(), pod);
    }
    let nodes = all::<Node>(client).await?;
    let (source, to) = (end(from, namespace), end(target.host, namespace));
    let to = party(&cluster, &to)?;
    let mut from = party(&cluster, &source)?;
    if let (Party::Address(address), Party::Pod(pod)) = (from, to)
        && nodes.iter().any(|node| node.name_any() == pod.node && has_address(node, address))
    {
        from = Party::OwnNode(address);
    }
    let connection = Connection { from, to, protocol: target.protocol, port: port(&target, to)? };
    output::text(explain(&cluster, &connection))?;
    Ok(())
}

struct Target<'a> {
    host: &'a str,
    port: &'a str,
    protocol: Protocol,
}

/// `POD:PORT`, `NAMESPACE/POD:PORT`, `ADDRESS:PORT`, each followed by a protocol or not.
fn target(text: &str) -> anyhow::Result<Target<'_>> {
    let (host, rest) = text.rsplit_once(':').with_context(|| {
        format!("{text:?} has no port: write it behind the name, e.g. `{text}:80` or `{text}:53/UDP`")
    })?;
    let (port, protocol) = rest.split_once('/').unwrap_or((rest, "TCP"));
    let known = Protocol::parse(Some(&protocol.to_uppercase()));
    let protocol = known.with_context(|| format!("{protocol:?} is no protocol: use TCP, UDP or SCTP"))?;
    if host.is_empty() || port.is_empty() {
        bail!("{text:?} is no end of a connection: write POD:PORT, NAMESPACE/POD:PORT or ADDRESS:PORT");
    }
    Ok(Target { host, port, protocol })
}

enum End {
    Pod(String, String),
    Address(IpAddr),
}

fn end(text: &str, namespace: &str) -> End {
    match (text.trim_matches(['[', ']']).parse(), text.split_once('/')) {
        (Ok(address), _) => End::Address(address),
        (_, Some(("pod" | "pods" | "po", name))) => End::Pod(namespace.to_owned(), name.to_owned()),
        (_, Some((namespace, name))) => End::Pod(namespace.to_owned(), name.to_owned()),
        (_, None) => End::Pod(namespace.to_owned(), text.to_owned()),
    }
}

/// A pod, also by its address.
fn party<'a>(cluster: &'a Cluster, end: &End) -> anyhow::Result<Party<'a>> {
    match end {
        End::Pod(namespace, name) => {
            let pod = cluster.pods.get(&(namespace.clone(), name.clone()));
            let pod = pod.with_context(|| format!("there is no pod {name} in namespace {namespace}"))?;
            Ok(Party::Pod(pod))
        }
        End::Address(address) => {
            let has = |pod: &&PolicyPod| !pod.host_network && !pod.ended && pod.addresses.contains(address);
            Ok(cluster.pods.values().find(has).map_or(Party::Address(*address), Party::Pod))
        }
    }
}

/// By number, or by its name in the pod.
fn port(target: &Target<'_>, to: Party<'_>) -> anyhow::Result<u16> {
    if let Ok(number) = target.port.parse() {
        return Ok(number);
    }
    let found = match to {
        Party::Pod(pod) => pod.port(target.port, target.protocol),
        _ => None,
    };
    found.with_context(|| {
        format!("{} has no {} port called {}: give its number", target.host, target.protocol, target.port)
    })
}

fn has_address(node: &Node, address: IpAddr) -> bool {
    let status = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    status.into_iter().flatten().any(|one| one.address == address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_connections() {
        let check = |text: &str, expected: Option<(&str, &str, Protocol)>| {
            let found = target(text).ok().map(|target| (target.host, target.port, target.protocol));
            assert_eq!(found, expected, "{text}");
        };
        check("web:80", Some(("web", "80", Protocol::Tcp)));
        check("shop/web:http", Some(("shop/web", "http", Protocol::Tcp)));
        check("10.0.0.1:53/udp", Some(("10.0.0.1", "53", Protocol::Udp)));
        check("web:80/SCTP", Some(("web", "80", Protocol::Sctp)));
        for bad in ["web", "web:", ":80", "web:80/ICMP"] {
            check(bad, None);
        }
        assert!(target("web").err().unwrap().to_string().contains("`web:80`"));
    }
}
