//! Three namespaces with three pods each, as upstream's suite has them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use minik8s_meta::IpFamily;
use serde_json::{Value, json};

use crate::policy::{
    Cluster, Connection, Direction, Labels, NamedPort, Party, Pod, Policy, PolicyTable, Protocol, evaluate,
};

pub const NODES: [&str; 2] = ["n0", "n1"];
const NAMES: [&str; 3] = ["x", "y", "z"];

pub fn policy(namespace: &str, name: &str, spec: Value) -> Policy {
    let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
    Policy::from(&serde_json::from_value::<NetworkPolicy>(object).unwrap())
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// `x/a` to `z/c`. Each listens on the ports 80 and 81, which have names; neighbours are on different nodes.
pub fn pod(namespace: &str, name: &str) -> Pod {
    let (row, column) = (namespace.as_bytes()[0] - b'x', name.as_bytes()[0] - b'a');
    let port = |number: u16, protocol: Protocol| NamedPort {
        name: format!("serve-{number}-{}", protocol.to_string().to_lowercase()),
        protocol,
        number,
    };
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: labels(&[("pod", name)]),
        node: NODES[usize::from((row + column) % 2)].to_owned(),
        addresses: vec![IpAddr::from([10, 244, row, column + 2])],
        ports: protocols.into_iter().flat_map(|one| [port(80, one), port(81, one)]).collect(),
        ..Pod::default()
    }
}

pub fn cluster(policies: Vec<Policy>) -> Cluster {
    let pods = NAMES.iter().flat_map(|ns| ["a", "b", "c"].map(|name| pod(ns, name)));
    let namespace =
        |name: &&str| ((*name).to_owned(), labels(&[("ns", name), ("kubernetes.io/metadata.name", name)]));
    Cluster {
        policies: policies.into_iter().map(|one| ((one.namespace.clone(), one.name.clone()), one)).collect(),
        pods: pods.map(|pod| (pod.key(), pod)).collect(),
        namespaces: NAMES.iter().map(namespace).collect(),
    }
}

/// A node's table with all of the cluster.
pub fn table(cluster: &Cluster, node: &str) -> PolicyTable {
    let mut table = PolicyTable::new(IpFamily::V4, "t", node, Some([10, 96, 0, 10].into()));
    cluster.pods.values().for_each(|pod| table.set_pod(pod.clone()));
    cluster.policies.values().for_each(|policy| table.set_policy(policy.clone()));
    for (name, labels) in &cluster.namespaces {
        table.set_namespace(name, Some(labels.clone()));
    }
    table.take_change();
    table
}

/// Whether a connection between two pods passes, by the rules of both nodes.
pub fn passes(tables: &BTreeMap<String, PolicyTable>, from: &Pod, to: &Pod, port: (Protocol, u16)) -> bool {
    let (source, target) = (from.addresses[0], to.addresses[0]);
    [(Direction::Egress, from, (source, target)), (Direction::Ingress, to, (target, source))]
        .into_iter()
        .all(|(direction, pod, ends)| pod.host_network || tables[&pod.node].lets_pass(direction, ends, port))
}

/// That the evaluator and the rules of all nodes say what is expected of every connection.
#[track_caller]
pub fn check(what: &str, cluster: &Cluster, port: (Protocol, u16), expected: impl Fn(&Pod, &Pod) -> bool) {
    let tables: BTreeMap<String, PolicyTable> =
        NODES.iter().map(|node| ((*node).to_owned(), table(cluster, node))).collect();
    for from in cluster.pods.values() {
        for to in cluster.pods.values() {
            let name = |pod: &Pod| format!("{}/{}", pod.namespace, pod.name);
            let at = format!("{what}: {} → {}:{}/{}", name(from), name(to), port.1, port.0);
            let wanted = expected(from, to) || from.key() == to.key();
            let connection =
                Connection { from: Party::Pod(from), to: Party::Pod(to), protocol: port.0, port: port.1 };
            assert_eq!(evaluate(cluster, &connection).is_allowed(), wanted, "{at}");
            assert_eq!(passes(&tables, from, to, port), wanted, "the rules of {at}");
        }
    }
}
