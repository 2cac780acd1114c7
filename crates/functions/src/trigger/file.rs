//! The pod that looks at a trigger's files: of the user's namespace, with the volume read-only and one key by which it signs
//! what it tells. It runs where the volume is, so nothing of the node's looks into users' files. Pure.

use k8s_openapi::api::core::v1::Pod;
use minik8s_meta::function::RUNTIMES;
use minik8s_meta::trigger::{Trigger, TriggerFile};
use minik8s_runtime::{Action, Plan, owner_reference};
use serde_json::json;

use super::Observed;
use super::kind::FILE_EVENTS;
use super::plan::Ready;

const PROGRAM: &str = include_str!("files.py");
/// Of the Secret's one value.
pub const KEY: &str = "key";
pub const GENERATION: &str = "minik8s.io/trigger-generation";
pub const USER: i64 = 65_532;

/// The Secret with the key of a trigger's pod.
pub fn key_name(trigger: &str) -> String {
    format!("{trigger}-files-key")
}

/// Keeps one pod of the newest spec, and says how it stands.
pub fn plan(seen: &Observed, file: &TriggerFile, plan: &mut Plan) -> Ready {
    let make = |generation: &str| pod(&seen.trigger, file, generation, seen.router_port);
    keep(seen, &make, plan)
}

/// Keeps one pod that tells what happens, made by `make` for a generation of the trigger.
pub fn keep(seen: &Observed, make: &dyn Fn(&str) -> Pod, plan: &mut Plan) -> Ready {
    let trigger = &*seen.trigger;
    let generation = trigger.metadata.generation.unwrap_or_default().to_string();
    let is_newest = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref();
        pod.metadata.deletion_timestamp.is_none()
            && !crate::status::has_ended(pod)
            && labels.and_then(|labels| labels.get(GENERATION)) == Some(&generation)
    };
    let Some(pod) = seen.pods.iter().find(|pod| is_newest(pod)) else {
        // Its name is free once the one before is gone.
        match seen.pods.is_empty() {
            true => plan.act(Action::create(&make(&generation))),
            false => stop(seen, plan),
        }
        return ("False", "Starting", "the pod that tells of events is being started".to_owned());
    };
    if crate::status::is_ready(pod) {
        return ("True", "Watching", String::new());
    }
    ("False", "Starting", waits_for(pod))
}

/// No pod tells of events of a trigger that is suspended.
pub fn stop(seen: &Observed, plan: &mut Plan) {
    let live = seen.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    live.for_each(|pod| plan.act(Action::delete(&**pod)));
}

/// What the pod itself says is wrong, else where it stands.
fn waits_for(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let ended = containers.into_iter().flatten().find_map(|container| {
        let last = container.last_state.as_ref()?.terminated.as_ref()?;
        last.message.clone().filter(|message| !message.is_empty())
    });
    let unplaced = || {
        let mut conditions = status?.conditions.iter().flatten();
        conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?.message.clone()
    };
    ended.or_else(unplaced).unwrap_or_else(|| "the pod that tells of events does not run yet".to_owned())
}

fn pod(trigger: &Trigger, file: &TriggerFile, generation: &str, router_port: u16) -> Pod {
    let meta = &trigger.metadata;
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let events = if file.events.is_empty() { FILE_EVENTS.join(",") } else { file.events.join(",") };
    let url = format!("http://$(HOST_IP):{router_port}/fn/{namespace}/-/hooks/{name}");
    let source = format!("/namespaces/{namespace}/persistentvolumeclaims/{}", file.claim_name);
    let set = |name: &str, value: &str| json!({"name": name, "value": value});
    let pod = json!({
        "metadata": {
            "name": format!("{name}-files"),
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "trigger-files", GENERATION: generation},
            "ownerReferences": [owner_reference(trigger)],
        },
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                // No fsGroup: whose files they are is not for this pod to change.
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "files",
                "image": RUNTIMES[0].image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/usr/bin/python3.11", "-c", PROGRAM],
                "env": [
                    {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                    {"name": "FILES_KEY", "valueFrom": {"secretKeyRef": {"name": key_name(name), "key": KEY}}},
                    set("FILES_URL", &url),
                    set("FILES_SOURCE", &source),
                    set("FILES_PATH", file.path.as_deref().unwrap_or_default()),
                    set("FILES_EVENTS", &events),
                    set("FILES_PATTERN", file.pattern.as_deref().filter(|one| !one.is_empty()).unwrap_or("*")),
                ],
                "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 300},
                "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "files", "mountPath": "/data", "readOnly": true}],
            }],
            "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": file.claim_name}}],
        },
    });
    serde_json::from_value(pod).unwrap_or_default()
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
