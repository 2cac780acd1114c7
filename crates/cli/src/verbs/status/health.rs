//! What is not as it should be. Pure.

use serde_json::Value;

use super::{Cluster, nodes};

#[derive(Debug, PartialEq, Eq)]
pub struct Trouble {
    /// `pod default/web`.
    pub object: String,
    pub why: String,
    /// Namespace and name, for `minik8s why`.
    pub pod: Option<(String, String)>,
}

/// Nodes first, since they explain pods; then workloads, which pods explain.
pub fn troubles(cluster: &Cluster) -> Vec<Trouble> {
    let mut all = Vec::new();
    for node in &cluster.nodes {
        if let Some(why) = node_trouble(node) {
            all.push(Trouble { object: format!("node {}", text(&node["metadata"]["name"])), why, pod: None });
        }
    }
    for pod in &cluster.pods {
        if let Some(why) = pod_trouble(pod) {
            let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
            let object = format!("pod {namespace}/{name}");
            all.push(Trouble { object, why, pod: Some((namespace, name)) });
        }
    }
    for (kind, objects, ready, wanted) in [
        ("deployment", &cluster.deployments, "availableReplicas", None),
        ("statefulset", &cluster.stateful_sets, "readyReplicas", None),
        ("daemonset", &cluster.daemon_sets, "numberAvailable", Some("desiredNumberScheduled")),
    ] {
        for object in objects.iter().filter(|object| !is_complete(object, ready, wanted)) {
            let now = object["status"][ready].as_i64().unwrap_or(0);
            let why = format!("{now} of {} available{}", wants(object, wanted), condition(object));
            all.push(Trouble { object: named(kind, object), why, pod: None });
        }
    }
    for job in &cluster.jobs {
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        let failed = conditions.into_iter().find(|c| c["type"] == "Failed" && c["status"] == "True");
        if let Some(failed) = failed {
            let why = format!("failed: {}", text(&failed["message"]));
            all.push(Trouble { object: named("job", job), why, pod: None });
        }
    }
    for claim in cluster.claims.iter().filter(|claim| claim["status"]["phase"] == "Lost") {
        all.push(Trouble { object: named("claim", claim), why: "its volume is gone".to_owned(), pod: None });
    }
    for usage in cluster.usages.iter().filter(|usage| usage.is_full()) {
        let object = format!("claim {}/{}", usage.namespace, usage.claim);
        all.push(Trouble { object, why: "its volume is full".to_owned(), pod: None });
    }
    all
}

fn named(kind: &str, object: &Value) -> String {
    format!("{kind} {}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn wants(object: &Value, wanted: Option<&str>) -> i64 {
    match wanted {
        Some(field) => object["status"][field].as_i64().unwrap_or(0),
        None => object["spec"]["replicas"].as_i64().unwrap_or(1),
    }
}

/// Whether a workload has as many pods as it wants.
pub fn is_complete(object: &Value, ready: &str, wanted: Option<&str>) -> bool {
    object["status"][ready].as_i64().unwrap_or(0) >= wants(object, wanted)
}

/// Why a Deployment says it makes no progress.
fn condition(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut stuck = conditions.filter(|c| {
        (c["type"] == "ReplicaFailure" && c["status"] == "True")
            || (c["type"] == "Progressing" && c["status"] == "False")
    });
    stuck.next().map(|c| format!(": {}", text(&c["message"]))).unwrap_or_default()
}

fn node_trouble(node: &Value) -> Option<String> {
    if !nodes::state(node).starts_with("Ready") {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().find(|c| c["type"] == "Ready");
        let why = ready.map(|c| text(&c["message"])).filter(|why| !why.is_empty());
        return Some(why.map_or("is not ready".to_owned(), |why| format!("is not ready: {why}")));
    }
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let pressure = conditions.into_iter().find(|c| c["type"] != "Ready" && c["status"] == "True");
    pressure.map(|c| format!("{}: {}", text(&c["type"]), text(&c["message"])))
}

fn pod_trouble(pod: &Value) -> Option<String> {
    let status = &pod["status"];
    match status["phase"].as_str() {
        Some("Succeeded") => return None,
        Some("Failed") => {
            let reason = status["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
            return Some(format!("failed{reason}"));
        }
        _ => {}
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return None;
    }
    for list in ["initContainerStatuses", "containerStatuses"] {
        for container in status[list].as_array().into_iter().flatten() {
            if let Some(why) = container_trouble(container) {
                return Some(why);
            }
        }
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let is = |kind: &str| conditions.iter().find(|c| c["type"] == kind);
    if let Some(unscheduled) = is("PodScheduled").filter(|c| c["status"] == "False") {
        // What preemption could not do either tells nothing new.
        let message = text(&unscheduled["message"]);
        let message = message.split(" preemption:").next().unwrap_or_default().trim_end_matches('.');
        return Some(format!("pending: {message}"));
    }
    match is("Ready") {
        Some(ready) if ready["status"] == "True" => None,
        Some(ready) if status["phase"] == "Running" => {
            Some(format!("runs but is not ready: {}", text(&ready["message"])))
        }
        _ => None,
    }
}

fn container_trouble(container: &Value) -> Option<String> {
    let reason = container["state"]["waiting"]["reason"].as_str()?;
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let name = text(&container["name"]);
    let mut why = format!("{reason}: container {name}");
    let ended = &container["lastState"]["terminated"];
    if let Some(code) = ended["exitCode"].as_i64() {
        let reason = ended["reason"].as_str().filter(|reason| *reason != "Error" && *reason != "Completed");
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        why.push_str(&format!(" exited with code {code}{reason}, {} restarts", container["restartCount"]));
    } else if let Some(message) = container["state"]["waiting"]["message"].as_str() {
        why.push_str(&format!(": {message}"));
    }
    Some(why)
}
