//! NetworkPolicies: whom they let speak to whom.

use serde_json::Value;

use super::super::page::{Page, items, shown};
use super::selector;

/// The lines below a direction stand this deep.
const INDENT: &str = "    ";

pub fn network_policy(object: &Value, page: &mut Page) {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    page.field(0, "Name", shown(&metadata["name"]));
    page.field(0, "Namespace", shown(&metadata["namespace"]));
    page.field(0, "Created on", created(&metadata["creationTimestamp"]));
    page.labels(object);
    page.annotations(object);
    page.line(0, "Spec:");
    let everyone = "<none> (Allowing the specific traffic to all pods in this namespace)";
    let chosen = match selector(&spec["podSelector"]).as_str() {
        "<none>" => everyone.to_owned(),
        chosen => chosen.to_owned(),
    };
    page.line(1, format!("PodSelector: {INDENT}{chosen}"));
    for direction in [&INGRESS, &EGRESS] {
        match direction.is_affected(spec) {
            true => {
                page.line(1, format!("Allowing {} traffic:", direction.word));
                direction.rules(items(&spec[direction.word]), page);
            }
            false => page.line(1, format!("Not affecting {} traffic", direction.word)),
        }
    }
    let types: Vec<String> = items(&spec["policyTypes"]).iter().map(shown).collect();
    page.line(1, format!("Policy Types: {}", types.join(", ")));
}

/// `2026-01-31 12:00:00 +0000 UTC`.
fn created(time: &Value) -> String {
    format!("{} +0000 UTC", shown(time).replace('T', " ").trim_end_matches('Z'))
}

struct Direction {
    word: &'static str,
    kind: &'static str,
    /// Where the other side of a rule stands, and how it is headed.
    peers: &'static str,
    head: &'static str,
    whom: &'static str,
}

const INGRESS: Direction =
    Direction { word: "ingress", kind: "Ingress", peers: "from", head: "From", whom: "source" };
const EGRESS: Direction =
    Direction { word: "egress", kind: "Egress", peers: "to", head: "To", whom: "destination" };

impl Direction {
    fn is_affected(&self, spec: &Value) -> bool {
        items(&spec["policyTypes"]).iter().any(|kind| kind == self.kind)
    }

    fn rules(&self, rules: &[Value], page: &mut Page) {
        if rules.is_empty() {
            let text = format!("<none> (Selected pods are isolated for {} connectivity)", self.word);
            return page.line(0, format!("{INDENT}{text}"));
        }
        for (i, rule) in rules.iter().enumerate() {
            if i > 0 {
                page.line(0, format!("{INDENT}----------"));
            }
            for port in items(&rule["ports"]) {
                let protocol = port["protocol"].as_str().unwrap_or("TCP");
                page.line(0, format!("{INDENT}To Port: {}/{protocol}", shown(&port["port"])));
            }
            if items(&rule["ports"]).is_empty() {
                page.line(0, format!("{INDENT}To Port: <any> (traffic allowed to all ports)"));
            }
            self.peers(items(&rule[self.peers]), page);
        }
    }

    fn peers(&self, peers: &[Value], page: &mut Page) {
        if peers.is_empty() {
            let text = format!("{}: <any> (traffic not restricted by {})", self.head, self.whom);
            return page.line(0, format!("{INDENT}{text}"));
        }
        for peer in peers {
            page.line(0, format!("{INDENT}{}:", self.head));
            for (label, field) in [("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector")]
            {
                if peer[field].is_object() {
                    page.line(1, format!("{INDENT}{label}: {}", selector(&peer[field])));
                }
            }
            let block = &peer["ipBlock"];
            if block.is_object() {
                let except: Vec<String> = items(&block["except"]).iter().map(shown).collect();
                page.line(1, format!("{INDENT}IPBlock:"));
                page.line(2, format!("{INDENT}CIDR: {}", shown(&block["cidr"])));
                page.line(2, format!("{INDENT}Except: {}", except.join(", ")));
            }
        }
    }
}
