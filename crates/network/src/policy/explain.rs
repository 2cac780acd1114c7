//! Why a connection is allowed or denied, in words.

use std::fmt::Write;

use super::evaluate::{allows_peer, allows_port};
use super::{Cluster, Connection, Decision, Direction, Party, Policy, evaluate};

/// A few lines for `minik8s why connection`.
pub fn explain(cluster: &Cluster, connection: &Connection<'_>) -> String {
    let verdict = evaluate(cluster, connection);
    let (from, to) = (shown(connection.from), shown(connection.to));
    let mut text = format!("connection: {from} → {to}, port {}/{}\n", connection.port, connection.protocol);
    for (direction, party, decision) in [
        (Direction::Egress, connection.from, &verdict.egress),
        (Direction::Ingress, connection.to, &verdict.ingress),
    ] {
        let Party::Pod(pod) = party else { continue };
        let (word, whose) = (word(direction), shown(party));
        let what = match decision {
            Decision::Open if pod.host_network => {
                "allowed: pods of the host's network are not guarded".to_owned()
            }
            Decision::Open if matches!(connection.from, Party::OwnNode(_)) => {
                "allowed: a node always reaches its own pods".to_owned()
            }
            Decision::Open => format!("allowed: no NetworkPolicy isolates it for {word}"),
            Decision::Allowed(policy, rule) => {
                format!("allowed by NetworkPolicy {}/{}, {word}[{rule}]", policy.namespace, policy.name)
            }
            Decision::Denied(policies) => format!("denied: {}", isolated_by(policies, word)),
        };
        let _ = writeln!(text, "{word} of {whose}: {what}");
        if let Decision::Denied(policies) = decision {
            reasons(&mut text, cluster, connection, (direction, policies));
        }
    }
    let verdict = if verdict.is_allowed() { "allowed" } else { "denied" };
    let _ = writeln!(text, "verdict: {verdict}");
    text
}

fn isolated_by(policies: &[&Policy], word: &str) -> String {
    let names: Vec<String> = policies.iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect();
    format!("isolated for {word} by {}, none of whose rules allows it", names.join(", "))
}

fn reasons(
    text: &mut String,
    cluster: &Cluster,
    connection: &Connection<'_>,
    (direction, policies): (Direction, &[&Policy]),
) {
    let (word, peer) = match direction {
        Direction::Ingress => ("from", connection.from),
        Direction::Egress => ("to", connection.to),
    };
    for policy in policies {
        let rules = policy.rules(direction).unwrap_or_default();
        if rules.is_empty() {
            let _ = writeln!(text, "  {}/{}: has no rules: allows nothing", policy.namespace, policy.name);
        }
        for (number, rule) in rules.iter().enumerate() {
            let why = match (allows_peer(rule, peer, cluster), allows_port(rule, connection)) {
                (false, false) => format!("neither `{word}` nor `ports` matches"),
                (false, true) => format!("`{word}` does not match {}", shown(peer)),
                _ => format!("`ports` does not match {}/{}", connection.port, connection.protocol),
            };
            let direction = self::word(direction);
            let _ = writeln!(text, "  {}/{}, {direction}[{number}]: {why}", policy.namespace, policy.name);
        }
    }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

fn shown(party: Party<'_>) -> String {
    match party {
        Party::Pod(pod) => format!("pod {}/{}", pod.namespace, pod.name),
        Party::Address(address) => address.to_string(),
        Party::OwnNode(address) => format!("the pod's own node ({address})"),
    }
}
