//! Advice about pods that are valid, but probably not what their authors meant.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::containers::{EPHEMERAL, INIT, MAIN};
use crate::At;
use crate::{Quantity, format};

/// Annotations of old that do nothing any more, and what replaced them.
const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "seccomp.security.alpha.kubernetes.io/pod",
        "non-functional in v1.27+; use the \"seccompProfile\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// Node labels that were renamed.
const NODE_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
];

/// Of a Pod, or of something with a pod's metadata and spec.
pub(crate) fn of(pod: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = pod.field("spec");
    listed(&pod.field("metadata").field("annotations"), &ANNOTATIONS, &mut warnings);
    listed(&spec.field("nodeSelector"), &NODE_LABELS, &mut warnings);
    for list in [INIT, MAIN, EPHEMERAL] {
        for container in spec.field(list).items() {
            hidden_variables(&container.field("env"), &mut warnings);
            repeated_ports(&container.field("ports"), &mut warnings);
            fractional_bytes(&container.field("resources"), &mut warnings);
        }
    }
    for (i, secret) in spec.field("imagePullSecrets").items().enumerate() {
        let name = secret.field("name");
        if name.text().is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", name.path));
        }
        let earlier = spec.field("imagePullSecrets").items().take(i);
        if earlier.into_iter().any(|other| other.field("name").text() == name.text()) {
            warnings.push(format!("{}: duplicate name {:?}", name.path, name.text()));
        }
    }
    if spec.field("terminationGracePeriodSeconds").int().is_some_and(|seconds| seconds < 0) {
        let path = spec.field("terminationGracePeriodSeconds").path;
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    for volume in spec.field("volumes").items().filter(|volume| volume.field("gitRepo").exists()) {
        warnings.push(format!("{}: deprecated in v1.11", volume.field("gitRepo").path));
    }
    warnings
}

/// Of the template of a workload, and of the name that its pods will bear.
pub(crate) fn of_workload(object: &Value) -> Vec<String> {
    let object = At::root(object);
    let mut warnings = name(&object, "Pod names and hostnames");
    warnings.extend(of(&object.field("spec").field("template")));
    warnings
}

/// A name with dots is legal, but no host is called like that.
pub(crate) fn name(object: &At<'_>, used_in: &str) -> Vec<String> {
    let name = object.field("metadata").field("name");
    let problems = if name.is_set() { format::label(name.text()) } else { Vec::new() };
    let warning = |problem: String| {
        format!(
            "{}: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{problem}]",
            name.path
        )
    };
    problems.into_iter().take(1).map(warning).collect()
}

fn listed(map: &At<'_>, known: &[(&str, &str)], warnings: &mut Vec<String>) {
    for (key, advice) in known.iter().filter(|(key, _)| !map.value[*key].is_null()) {
        warnings.push(format!("{}: {advice}", map.path.key(key)));
    }
}

fn hidden_variables(env: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for variable in env.items() {
        let name = variable.field("name").text();
        if !seen.insert(name) {
            let path = &variable.path;
            warnings.push(format!(
                "{path}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn repeated_ports(ports: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen = HashMap::new();
    for port in ports.items() {
        let text = |field: &str| port.value[field].as_str().unwrap_or_default();
        let number = |field: &str| port.value[field].as_i64().unwrap_or(0);
        let id = (number("containerPort"), number("hostPort"), text("protocol"), text("hostIP"));
        match seen.get(&id) {
            Some(first) => {
                warnings.push(format!("{}: duplicate port definition with {first}", port.path));
            }
            None => drop(seen.insert(id, port.path.clone())),
        }
    }
}

/// `100m` of memory is a tenth of a byte: its author meant `100M`.
fn fractional_bytes(resources: &At<'_>, warnings: &mut Vec<String>) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources.field(list).entries() {
            let bytes = matches!(name, "memory" | "ephemeral-storage");
            if bytes && Quantity::from_json(amount.value).is_ok_and(|quantity| !quantity.is_whole()) {
                let (path, text) = (&amount.path, amount.text());
                warnings
                    .push(format!("{path}: fractional byte value {text:?} is invalid, must be an integer"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::At;

    fn check(pod: Value, expected: &[&str]) {
        let warnings = super::of(&At::root(&pod));
        let same =
            warnings.len() == expected.len() && warnings.iter().zip(expected).all(|(w, x)| w.starts_with(x));
        assert!(same, "{pod}\ngives    {warnings:#?}\nexpected {expected:#?}");
    }

    #[test]
    fn advice() {
        let container = |container: Value| json!({"spec": {"containers": [container]}});
        check(container(json!({"env": [{"name": "A"}, {"name": "B"}]})), &[]);
        check(
            container(json!({"env": [{"name": "A"}, {"name": "A"}]})),
            &["spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped"],
        );
        check(
            container(json!({"ports": [{"containerPort": 1}, {"containerPort": 1}]})),
            &["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
        );
        check(
            container(json!({"resources": {"limits": {"memory": "100m", "cpu": "100m"}}})),
            &["spec.containers[0].resources.limits[memory]: fractional byte value \"100m\""],
        );
        check(
            json!({"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}},
                "spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}, "terminationGracePeriodSeconds": -1}}),
            &[
                "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional",
                "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14",
                "spec.terminationGracePeriodSeconds: must be >= 0",
            ],
        );
    }

    #[test]
    fn names() {
        let name =
            |name: &str| super::name(&At::root(&json!({"metadata": {"name": name}})), "the Pod's hostname");
        assert!(name("web").is_empty());
        assert!(name("web.1")[0].starts_with("metadata.name: this is used in the Pod's hostname"));
    }
}
