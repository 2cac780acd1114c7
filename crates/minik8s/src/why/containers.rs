//! Why a pod that has a node is not ready: its containers' states, probes, and recent events. Pure.

use std::fmt::Write;

use k8s_openapi::api::core::v1::{
    Container, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Event, Node, Pod, PodStatus,
};

/// Of the warnings, only the latest few tell something new.
const MOST_EVENTS: usize = 5;
const OUT_OF_MEMORY: &str = "OOMKilled";

pub fn explain(pod: &Pod, node: Option<&Node>, events: &[Event]) -> String {
    let meta = &pod.metadata;
    let name = meta.name.as_deref().unwrap_or("");
    let empty = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&empty);
    let phase = status.phase.as_deref().unwrap_or("Pending");
    let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("");
    let mut text = format!("Pod {}/{name} is {phase} on node {on}", meta.namespace.as_deref().unwrap_or(""));
    let findings = findings(pod, status, node, events);
    if findings.is_empty() {
        text.push_str(if is_true(status, "Ready") { " and ready.\n" } else { ".\n" });
    } else {
        text.push_str(":\n");
    }
    for finding in &findings {
        let _ = writeln!(text, "- {finding}");
    }
    let mut warnings: Vec<&Event> =
        events.iter().filter(|event| event.type_.as_deref() == Some("Warning")).collect();
    warnings.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    if !findings.is_empty() && !warnings.is_empty() {
        text.push_str("\nLatest warnings:\n");
        for event in warnings.iter().rev().take(MOST_EVENTS).rev() {
            let reason = event.reason.as_deref().unwrap_or("");
            let times =
                event.count.filter(|count| *count > 1).map_or(String::new(), |n| format!(" ({n} times)"));
            let _ = writeln!(text, "- {reason}{times}: {}", event.message.as_deref().unwrap_or("").trim());
        }
    }
    text
}

fn findings(pod: &Pod, status: &PodStatus, node: Option<&Node>, events: &[Event]) -> Vec<String> {
    let mut all = Vec::new();
    if pod.metadata.deletion_timestamp.is_some() {
        let finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
        all.push(match finalizers.is_empty() {
            true => "it is being deleted".to_owned(),
            false => format!("it is being deleted and waits for its finalizers: {}", finalizers.join(", ")),
        });
    }
    match node {
        None => all.push("its node is gone".to_owned()),
        Some(node) if !is_node_ready(node) => {
            let name = node.metadata.name.as_deref().unwrap_or("");
            all.push(format!("its node is not ready; see: kubectl describe node {name}"));
        }
        Some(_) => {}
    }
    if let Some(reason) = &status.reason {
        let message = status.message.as_deref().map_or(String::new(), |m| format!(": {m}"));
        all.push(format!("{reason}{message}"));
    }
    let spec = pod.spec.as_ref();
    let initial = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let main = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    for (kind, containers, statuses) in [
        ("init container", initial, &status.init_container_statuses),
        ("container", main, &status.container_statuses),
    ] {
        for container in containers {
            let known = statuses.iter().flatten().find(|known| known.name == container.name);
            if let Some(why) = known.and_then(|known| container_trouble(pod, kind, container, known, events))
            {
                all.push(format!("{kind} {}: {why}", container.name));
            }
        }
    }
    let gates = spec.and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    for gate in gates.iter().filter(|gate| !is_true(status, &gate.condition_type)) {
        all.push(format!("its readiness gate {} is not True; whoever owns it sets it", gate.condition_type));
    }
    all
}

/// None: the container is as it should be.
fn container_trouble(
    pod: &Pod,
    kind: &str,
    container: &Container,
    status: &ContainerStatus,
    events: &[Event],
) -> Option<String> {
    let state = status.state.as_ref()?;
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let lasting = kind == "container" || container.restart_policy.as_deref() == Some("Always");
    if let Some(waiting) = &state.waiting {
        return Some(waits(pod, container, status, waiting, last));
    }
    if let Some(ended) = &state.terminated {
        let fine = ended.exit_code == 0;
        return (!fine)
            .then(|| format!("{}; see: {}", ending(container, ended), logs(pod, container, false)));
    }
    if lasting && !status.ready {
        let path = format!("{{{}}}", container.name);
        let of_probe = |event: &&Event| {
            let field = event.involved_object.field_path.as_deref().unwrap_or("");
            event.reason.as_deref() == Some("Unhealthy") && field.ends_with(&path)
        };
        let probe = events.iter().rev().find(of_probe).and_then(|event| event.message.as_deref());
        let why = match (probe, status.started) {
            (Some(message), _) => message.trim().to_owned(),
            (None, Some(false)) => "its startup probe has not succeeded yet".to_owned(),
            (None, _) => "its readiness probe has not succeeded yet".to_owned(),
        };
        return Some(format!("runs but is not ready: {why}"));
    }
    let restarted = last.filter(|_| status.restart_count > 0)?;
    (!status.ready)
        .then(|| format!("restarted {} times; {}", status.restart_count, ending(container, restarted)))
}

fn waits(
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
    waiting: &ContainerStateWaiting,
    last: Option<&ContainerStateTerminated>,
) -> String {
    let reason = waiting.reason.as_deref().unwrap_or("waiting");
    let message = waiting.message.as_deref().map_or(String::new(), |message| format!(": {message}"));
    match reason {
        "CrashLoopBackOff" => {
            let ended = last.map_or("it ended".to_owned(), |last| ending(container, last));
            let logs = logs(pod, container, true);
            format!("crashes again and again ({} restarts): {ended}; see: {logs}", status.restart_count)
        }
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" => {
            let image = container.image.as_deref().unwrap_or("");
            format!(
                "its image {image} cannot be had ({reason}){message}; check the name, the registry and imagePullSecrets, or load it: minik8s image load FILE.tar"
            )
        }
        "CreateContainerConfigError" => {
            format!("cannot be made{message}; create what it refers to, or make the reference optional")
        }
        "ContainerCreating" | "PodInitializing" => format!("is being prepared ({reason})"),
        other => format!("{other}{message}"),
    }
}

fn ending(container: &Container, ended: &ContainerStateTerminated) -> String {
    let reason = ended.reason.as_deref().unwrap_or("");
    if reason == OUT_OF_MEMORY {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let limit =
            limits.and_then(|limits| limits.get("memory")).map_or("its limit", |limit| limit.0.as_str());
        return format!("it used more memory than {limit} (OOMKilled): raise resources.limits.memory");
    }
    let code = ended.exit_code;
    let meaning = match code {
        126 => ", its command cannot be executed",
        127 => ", its command was not found",
        137 => ", it was killed",
        139 => ", a segmentation fault",
        143 => ", it was asked to end",
        _ => "",
    };
    let message = ended.message.as_deref().map_or(String::new(), |message| format!(": {}", message.trim()));
    format!("it exited with code {code} ({reason}{meaning}){message}")
}

fn logs(pod: &Pod, container: &Container, previous: bool) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
    let name = pod.metadata.name.as_deref().unwrap_or("");
    let previous = if previous { " --previous" } else { "" };
    format!("kubectl logs -n {namespace} {name} -c {}{previous}", container.name)
}

fn is_true(status: &PodStatus, kind: &str) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == kind && c.status == "True")
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(status: Value, events: Value, expected: &str) {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [
                {"name": "app", "image": "web:1", "resources": {"limits": {"memory": "64Mi"}}},
            ]},
            "status": status,
        });
        let node = json!({"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let (pod, node) = (serde_json::from_value(pod).unwrap(), serde_json::from_value(node).unwrap());
        let events: Vec<Event> = serde_json::from_value(events).unwrap();
        assert_eq!(explain(&pod, Some(&node), &events), expected);
    }

    fn container(state: Value, more: Value) -> Value {
        let mut status = json!({"name": "app", "image": "web:1", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"phase": "Running", "containerStatuses": [status]})
    }

    #[test]
    fn crashing() {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}});
        let ended =
            json!({"restartCount": 7, "lastState": {"terminated": {"exitCode": 127, "reason": "Error"}}});
        check(
            container(waiting.clone(), ended),
            json!([]),
            "Pod default/web is Running on node n1:\n\
             - container app: crashes again and again (7 restarts): it exited with code 127 (Error, its command \
             was not found); see: kubectl logs -n default web -c app --previous\n",
        );
        let hungry =
            json!({"restartCount": 2, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
        check(
            container(waiting, hungry),
            json!([]),
            "Pod default/web is Running on node n1:\n\
             - container app: crashes again and again (2 restarts): it used more memory than 64Mi (OOMKilled): \
             raise resources.limits.memory; see: kubectl logs -n default web -c app --previous\n",
        );
    }

    #[test]
    fn not_ready_says_what_the_probe_said() {
        let event = json!({
            "metadata": {}, "type": "Warning", "reason": "Unhealthy", "count": 3,
            "message": "Readiness probe failed: HTTP probe failed with statuscode: 503",
            "involvedObject": {"fieldPath": "spec.containers{app}"},
        });
        check(
            container(json!({"running": {}}), json!({"started": true})),
            json!([event]),
            "Pod default/web is Running on node n1:\n\
             - container app: runs but is not ready: Readiness probe failed: HTTP probe failed with statuscode: 503\n\
             \n\
             Latest warnings:\n\
             - Unhealthy (3 times): Readiness probe failed: HTTP probe failed with statuscode: 503\n",
        );
    }

    #[test]
    fn images_and_health() {
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
        check(
            container(waiting, json!({})),
            json!([]),
            "Pod default/web is Running on node n1:\n\
             - container app: its image web:1 cannot be had (ErrImagePull): not found; check the name, the \
             registry and imagePullSecrets, or load it: minik8s image load FILE.tar\n",
        );
        let mut fine = container(json!({"running": {}}), json!({"ready": true}));
        fine["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        check(fine, json!([]), "Pod default/web is Running on node n1 and ready.\n");
    }
}
