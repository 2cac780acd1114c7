//! Pods and their containers.

use serde_json::Value;

use minik8s_api::state_metrics::{
    Add, Page, Subject, amount, list, map, number, one_of, resource_name, text, unit,
};

const PHASES: [&str; 5] = ["Pending", "Succeeded", "Failed", "Unknown", "Running"];
const WAITING: [&str; 7] = [
    "ContainerCreating",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
];

pub fn pods(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "pod", namespaced: true };
    about(of, page);
    states(of, page);
    containers(of, page);
    resources(of, page);
}

fn about(of: Subject<'_>, page: &mut Page) {
    page.gauge(of, "kube_pod_info", "Information about pod.", |pod, add| {
        let owner = list(&pod["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
        let owner = owner.unwrap_or(&Value::Null);
        let host_network = if pod["spec"]["hostNetwork"] == true { "true" } else { "false" };
        let labels = [
            ("uid", text(&pod["metadata"]["uid"])),
            ("host_ip", text(&pod["status"]["hostIP"])),
            ("pod_ip", text(&pod["status"]["podIP"])),
            ("node", text(&pod["spec"]["nodeName"])),
            ("created_by_kind", text(&owner["kind"])),
            ("created_by_name", text(&owner["name"])),
            ("priority_class", text(&pod["spec"]["priorityClassName"])),
            ("host_network", host_network),
        ];
        add(&labels, 1.0);
    });
    page.gauge(of, "kube_pod_owner", "Information about the Pod's owner.", owners);
    page.created(of, "kube_pod_created");
    page.number(of, "kube_pod_start_time", "Start time in unix timestamp for a pod.", "/status/startTime");
    page.number(of, "kube_pod_deletion_timestamp", "Unix deletion timestamp", "/metadata/deletionTimestamp");
    page.gauge(
        of,
        "kube_pod_restart_policy",
        "Describes the restart policy in use by this pod.",
        |pod, add| {
            add(&[("type", text(&pod["spec"]["restartPolicy"]))], 1.0);
        },
    );
}

pub fn owners(object: &Value, add: Add<'_>) {
    for owner in list(&object["metadata"]["ownerReferences"]) {
        let is_controller = if owner["controller"] == true { "true" } else { "false" };
        let labels = [
            ("owner_kind", text(&owner["kind"])),
            ("owner_name", text(&owner["name"])),
            ("owner_is_controller", is_controller),
        ];
        add(&labels, 1.0);
    }
}

fn states(of: Subject<'_>, page: &mut Page) {
    page.gauge(of, "kube_pod_status_phase", "The pods current phase.", |pod, add| {
        one_of("phase", text(&pod["status"]["phase"]), &PHASES, &[], add);
    });
    for (name, kind, help) in [
        ("kube_pod_status_ready", "Ready", "Describes whether the pod is ready to serve requests."),
        (
            "kube_pod_status_scheduled",
            "PodScheduled",
            "Describes the status of the scheduling process for the pod.",
        ),
    ] {
        page.gauge(of, name, help, |pod, add| {
            let condition = list(&pod["status"]["conditions"]).find(|condition| condition["type"] == kind);
            if let Some(condition) = condition {
                let is = text(&condition["status"]).to_lowercase();
                one_of("condition", &is, &["true", "false", "unknown"], &[], add);
            }
        });
    }
    page.gauge(
        of,
        "kube_pod_status_unschedulable",
        "Describes the unschedulable status for the pod.",
        |pod, add| {
            let mut conditions = list(&pod["status"]["conditions"]);
            if conditions.any(|c| c["type"] == "PodScheduled" && c["reason"] == "Unschedulable") {
                add(&[], 1.0);
            }
        },
    );
}

/// The statuses of a pod's containers with their names.
fn statuses(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    list(&pod["status"]["containerStatuses"]).map(|status| (text(&status["name"]), status))
}

fn containers(of: Subject<'_>, page: &mut Page) {
    page.gauge(of, "kube_pod_container_info", "Information about a container in a pod.", |pod, add| {
        for (container, status) in statuses(pod) {
            let labels = [
                ("container", container),
                ("image", text(&status["image"])),
                ("image_id", text(&status["imageID"])),
                ("container_id", text(&status["containerID"])),
            ];
            add(&labels, 1.0);
        }
    });
    for (name, path, help) in [
        ("ready", "/ready", "Describes whether the containers readiness check succeeded."),
        ("running", "/state/running", "Describes whether the container is currently in running state."),
        ("waiting", "/state/waiting", "Describes whether the container is currently in waiting state."),
        (
            "terminated",
            "/state/terminated",
            "Describes whether the container is currently in terminated state.",
        ),
    ] {
        page.gauge(of, &format!("kube_pod_container_status_{name}"), help, |pod, add| {
            for (container, status) in statuses(pod) {
                let is = status.pointer(path).is_some_and(|state| state.is_object() || *state == true);
                add(&[("container", container)], f64::from(u8::from(is)));
            }
        });
    }
    let name = "kube_pod_container_status_restarts_total";
    page.counter(of, name, "The number of container restarts per container.", |pod, add| {
        for (container, status) in statuses(pod) {
            add(&[("container", container)], number(&status["restartCount"]).unwrap_or(0.0));
        }
    });
    let name = "kube_pod_container_status_waiting_reason";
    page.gauge(of, name, "Describes the reason the container is currently in waiting state.", |pod, add| {
        for (container, status) in statuses(pod) {
            let reason = text(&status["state"]["waiting"]["reason"]);
            if WAITING.contains(&reason) {
                add(&[("container", container), ("reason", reason)], 1.0);
            }
        }
    });
    for (name, path, help) in [
        (
            "terminated_reason",
            "/state/terminated/reason",
            "Describes the reason the container is currently in terminated state.",
        ),
        (
            "last_terminated_reason",
            "/lastState/terminated/reason",
            "Describes the last reason the container was in terminated state.",
        ),
    ] {
        page.gauge(of, &format!("kube_pod_container_status_{name}"), help, |pod, add| {
            for (container, status) in statuses(pod) {
                if let Some(reason) = status.pointer(path).and_then(Value::as_str) {
                    add(&[("container", container), ("reason", reason)], 1.0);
                }
            }
        });
    }
}

fn resources(of: Subject<'_>, page: &mut Page) {
    for (what, help) in [
        ("requests", "The number of requested request resource by a container."),
        ("limits", "The number of requested limit resource by a container."),
    ] {
        page.gauge(of, &format!("kube_pod_container_resource_{what}"), help, |pod, add| {
            for container in list(&pod["spec"]["containers"]) {
                for (resource, value) in map(&container["resources"][what]) {
                    let Some(value) = amount(value) else { continue };
                    let labels = [
                        ("container", text(&container["name"])),
                        ("node", text(&pod["spec"]["nodeName"])),
                        ("resource", &*resource_name(resource)),
                        ("unit", unit(resource)),
                    ];
                    add(&labels, value);
                }
            }
        });
    }
}
