//! The node's probes and hooks call the pod and nobody else: a host in them would make the kubelet a way
//! into networks that the pod cannot reach.

use serde_json::Value;

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::{Container, Pod};
use crate::wording::{Sorted, containers, plural, quoted};

pub const CHECK: Check = Check {
    id: "hostProbesAndHostLifecycle",
    level: Level::Baseline,
    revisions: &[Revision::since(34, since_1_34)],
};

fn since_1_34(pod: &Pod<'_>) -> Option<Violation> {
    let (mut names, mut hosts) = (Sorted::new(), Sorted::new());
    for container in pod.containers() {
        let found: Vec<&str> = handlers(container).into_iter().flat_map(hosts_of).collect();
        if !found.is_empty() {
            names.insert(container.name);
        }
        hosts.extend(found);
    }
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural("uses", "use", names.len()),
            plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
            quoted(hosts)
        ),
    })
}

fn handlers(container: Container<'_>) -> [&Value; 5] {
    let value = container.value;
    let lifecycle = &value["lifecycle"];
    [
        &value["livenessProbe"],
        &value["readinessProbe"],
        &value["startupProbe"],
        &lifecycle["postStart"],
        &lifecycle["preStop"],
    ]
}

fn hosts_of(handler: &Value) -> impl Iterator<Item = &str> {
    let hosts = ["httpGet", "tcpSocket"].into_iter().filter_map(|kind| handler[kind]["host"].as_str());
    hosts.filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn host_in_probes_and_hooks_is_forbidden_since_1_34() {
        let bad = "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"h\")";
        let probe = |field: &str, kind: &str, host: &str| json!({"spec": {"containers": [{"name": "c", field: {kind: {"host": host, "port": 80}}}]}});
        let hook = |field: &str, kind: &str| json!({"spec": {"containers": [{"name": "c", "lifecycle": {field: {kind: {"host": "h"}}}}]}});
        let mut cases = Vec::new();
        for kind in ["httpGet", "tcpSocket"] {
            for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
                cases.push((probe(field, kind, "h"), bad));
                cases.push((probe(field, kind, ""), ""));
            }
            cases.extend(["postStart", "preStop"].map(|field| (hook(field, kind), bad)));
        }
        cases.push((
            json!({"spec": {
                "containers": [{"name": "d", "livenessProbe": {"httpGet": {"host": "y"}}, "startupProbe": {"tcpSocket": {"host": "x"}}}],
                "initContainers": [{"name": "c", "readinessProbe": {"httpGet": {"host": "127.0.0.1"}}}],
            }}),
            "probe or lifecycle host (containers \"c\", \"d\" use probe or lifecycle hosts \"127.0.0.1\", \"x\", \"y\")",
        ));
        cases.push((
            json!({"spec": {"containers": [{"name": "c", "livenessProbe": {"exec": {"command": ["a"]}}}]}}),
            "",
        ));
        expect(&CHECK, 34, &cases);
        expect(&CHECK, 33, &[(probe("livenessProbe", "httpGet", "h"), "")]);
    }
}
