//! No ports of the node.

use std::collections::BTreeSet;

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::{Pod, items};
use crate::wording::{containers, plural};

pub const CHECK: Check =
    Check { id: "hostPorts", level: Level::Baseline, revisions: &[Revision::since(0, since_1_0)] };

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let (mut names, mut ports) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let used = items(&container.value["ports"]).map(|port| &port["hostPort"]);
        let mut used = used.filter(|port| !port.is_null() && port.as_f64() != Some(0.0)).peekable();
        if used.peek().is_some() {
            names.push(container.name);
        }
        // As text, in the order of text, as upstream has it.
        ports.extend(used.map(ToString::to_string));
    }
    let list: Vec<&str> = ports.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural("uses", "use", names.len()),
            plural("hostPort", "hostPorts", list.len()),
            list.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn host_ports_are_forbidden() {
        let with = |name: &str, ports: &[u16]| {
            let ports: Vec<Value> =
                ports.iter().map(|port| json!({"containerPort": 80, "hostPort": port})).collect();
            json!({"name": name, "ports": ports})
        };
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}), ""),
                (json!({"spec": {"containers": [with("c", &[0])]}}), ""),
                (
                    json!({"spec": {"containers": [with("c", &[80])]}}),
                    "hostPort (container \"c\" uses hostPort 80)",
                ),
                (
                    json!({"spec": {"containers": [with("c", &[90, 1000, 0]), with("d", &[0])], "initContainers": [with("i", &[90])]}}),
                    "hostPort (containers \"i\", \"c\" use hostPorts 1000, 90)",
                ),
            ],
        );
    }
}
