//! Whether the routers of all ready nodes answer for a Gateway, by their own word. Pure.

use minik8s_meta::gateway::{GatewayAckSpec, GatewayConfigSpec};

use super::gateway::Observed;
use crate::condition::Problem;

/// Names in a message.
const MOST_NAMES: usize = 10;

/// What is missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Why nobody can answer at all.
    problem: Option<String>,
    /// Nodes that have not said that they have the listeners as they are.
    waiting: Vec<String>,
    /// Ports of the routers that cannot be had, and why.
    ports: Vec<(i32, String)>,
    /// The address leads to them.
    is_led: bool,
}

impl Nodes {
    pub fn of(seen: &Observed, wanted: &GatewayConfigSpec) -> Self {
        // What was not written yet, nobody has.
        let Some(config) = seen.config.as_ref().filter(|config| config.spec.revision == wanted.revision)
        else {
            return Nodes::hindered("the nodes are not told yet");
        };
        if seen.nodes.is_empty() {
            return Nodes::hindered("no node is ready to answer for it");
        }
        let uid = config.metadata.uid.as_deref().unwrap_or_default();
        let mut nodes = Nodes { is_led: seen.slice.is_some(), ..Nodes::default() };
        for (node, _) in &seen.nodes {
            match said(seen, uid, node).filter(|ack| ack.revision == wanted.revision) {
                None => nodes.waiting.push(node.clone()),
                Some(ack) => nodes.ports.extend(
                    ack.problems
                        .iter()
                        .map(|problem| (problem.router_port, format!("node {node}: {}", problem.message))),
                ),
            }
        }
        nodes
    }

    fn hindered(why: &str) -> Self {
        Nodes { problem: Some(why.to_owned()), ..Nodes::default() }
    }

    /// Whether all of it is answered.
    pub fn whole(&self) -> Result<(), Problem> {
        self.judge(|_| true)
    }

    /// Whether one port of the routers is.
    pub fn port(&self, router_port: i32) -> Result<(), Problem> {
        self.judge(|port| port == router_port)
    }

    fn judge(&self, matters: impl Fn(i32) -> bool) -> Result<(), Problem> {
        let pending = |text: String| Err(Problem::new("Pending", text));
        if let Some(problem) = &self.problem {
            return pending(problem.clone());
        }
        let ports = self.ports.iter().filter(|(port, _)| matters(*port)).map(|(_, text)| text.as_str());
        let taken: Vec<&str> = ports.take(MOST_NAMES).collect();
        if !taken.is_empty() {
            return pending(taken.join("; "));
        }
        if self.waiting.is_empty() {
            let unled = || pending("its address leads to no node yet".to_owned());
            return if self.is_led { Ok(()) } else { unled() };
        }
        let names: Vec<&str> = self.waiting.iter().take(MOST_NAMES).map(String::as_str).collect();
        pending(format!("nodes that do not answer for it yet: {}", names.join(", ")))
    }
}

/// The name says whose word it is, and the node's right to write it depends on that.
fn said<'a>(seen: &'a Observed, uid: &str, node: &str) -> Option<&'a GatewayAckSpec> {
    let is_it = |name: &str| name.split_once('.') == Some((uid, node));
    let ack = seen.acks.iter().find(|ack| ack.metadata.name.as_deref().is_some_and(is_it))?;
    Some(&ack.spec)
}
