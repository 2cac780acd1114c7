//! After the last fault: every node leads to the Service by every way there is, at once.

use std::process::Command;

use super::faults::NODES;
use super::traffic::{NAME, Target};
use crate::harness::lab::Lab;

/// How many ways were tried, and what was wrong with which of them.
pub fn check(lab: &Lab, target: Target) -> (usize, Vec<String>) {
    let Target { node_port, address, dns } = target;
    let mut urls: Vec<String> =
        (1..=NODES).map(|node| format!("http://{}:{node_port}/", lab.address(node))).collect();
    urls.push(format!("http://{address}/"));
    let mut tried = 0;
    let mut wrong = Vec::new();
    for node in (1..=NODES).map(|number| format!("node{number}")) {
        let mut ask = |what: &str, question: &[&str], expected: &str| {
            let said = on_node(lab, &node, question);
            tried += 1;
            if !said.contains(expected) {
                wrong.push(format!("{what} from {node}: {said:?}"));
            }
        };
        for url in &urls {
            ask(url, &["wget", "-q", "-O", "-", url], "well");
        }
        ask(NAME, &["nslookup", NAME, &dns.to_string()], &format!("Address: {address}"));
    }
    (tried, wrong)
}

/// What a tool of busybox says there.
fn on_node(lab: &Lab, node: &str, question: &[&str]) -> String {
    let output = Command::new("nsenter")
        .arg(format!("--net={}", lab.namespace(node).display()))
        .args(["timeout", "10", "/bin/busybox"])
        .args(question)
        .output()
        .expect("nsenter is installed");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
