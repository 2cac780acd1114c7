//! The row of `kubectl get pods`: readiness, the one word that says how it goes, restarts.

use jiff::Timestamp;
use serde_json::Value;

use crate::pod_spec::containers::{self, INIT, MAIN};
use crate::table;
use crate::{Cell, FieldPath};

/// All that [`cells`] looks at.
pub(super) const PATHS: &[FieldPath] = &[
    &["metadata", "name"],
    &["metadata", "creationTimestamp"],
    &["metadata", "deletionTimestamp"],
    &["spec", "nodeName"],
    &["spec", "readinessGates", "conditionType"],
    &["spec", "containers", "name"],
    &["spec", "initContainers", "name"],
    &["spec", "initContainers", "restartPolicy"],
    &["status", "phase"],
    &["status", "reason"],
    &["status", "podIP"],
    &["status", "podIPs", "ip"],
    &["status", "nominatedNodeName"],
    &["status", "conditions", "type"],
    &["status", "conditions", "status"],
    &["status", "conditions", "reason"],
    &["status", "containerStatuses", "ready"],
    &["status", "containerStatuses", "restartCount"],
    &["status", "containerStatuses", "state", "waiting", "reason"],
    &["status", "containerStatuses", "state", "running", "startedAt"],
    &["status", "containerStatuses", "state", "terminated", "reason"],
    &["status", "containerStatuses", "state", "terminated", "signal"],
    &["status", "containerStatuses", "state", "terminated", "exitCode"],
    &["status", "containerStatuses", "lastState", "terminated", "finishedAt"],
    &["status", "initContainerStatuses", "name"],
    &["status", "initContainerStatuses", "ready"],
    &["status", "initContainerStatuses", "started"],
    &["status", "initContainerStatuses", "restartCount"],
    &["status", "initContainerStatuses", "state", "waiting", "reason"],
    &["status", "initContainerStatuses", "state", "running", "startedAt"],
    &["status", "initContainerStatuses", "state", "terminated", "reason"],
    &["status", "initContainerStatuses", "state", "terminated", "signal"],
    &["status", "initContainerStatuses", "state", "terminated", "exitCode"],
    &["status", "initContainerStatuses", "lastState", "terminated", "finishedAt"],
];

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Cell> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            let ago = crate::human_duration(now.as_second() - last.as_second());
            format!("{} ({ago} ago)", summary.restarts)
        }
        _ => summary.restarts.to_string(),
    };
    vec![
        table::name(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        table::age(pod, now),
        table::text_or(address(status), table::NONE).into(),
        table::text_or(&spec["nodeName"], table::NONE).into(),
        table::text_or(&status["nominatedNodeName"], table::NONE).into(),
        readiness_gates(pod).into(),
    ]
}

/// The pod's first address.
pub(super) fn address(status: &Value) -> &Value {
    match &status["podIPs"][0]["ip"] {
        Value::Null => &status["podIP"],
        ip => ip,
    }
}

/// What the statuses of the containers come to.
#[derive(Default)]
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let sidecars = containers::of(spec, INIT).iter().filter(|c| containers::is_sidecar(c)).count();
        let mut summary = Summary {
            total: containers::of(spec, MAIN).len() + sidecars,
            reason: pod_reason(status),
            ..Summary::default()
        };
        let initializing = summary.count_init_containers(spec, status);
        if !initializing || condition(status, "Initialized") == Some("True") {
            summary.count_main_containers(spec, status);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if status["reason"] == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Says whether an init container is still to succeed.
    fn count_init_containers(&mut self, spec: &Value, status: &Value) -> bool {
        let init = containers::of(spec, INIT);
        for (i, container) in statuses(status, "initContainerStatuses").enumerate() {
            self.count_restarts(container);
            let state = &container["state"];
            let terminated = &state["terminated"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            if !terminated.is_null() && terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
                continue;
            }
            if is_sidecar_status(init, container) && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.reason = match () {
                () if !terminated.is_null() => format!("Init:{}", end_reason(terminated)),
                () if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                () => format!("Init:{i}/{}", init.len()),
            };
            return true;
        }
        false
    }

    /// From here on only the restarts of sidecars and main containers count.
    fn count_main_containers(&mut self, spec: &Value, status: &Value) {
        (self.restarts, self.last_restart) = (0, None);
        let init = containers::of(spec, INIT);
        for container in statuses(status, "initContainerStatuses").filter(|c| is_sidecar_status(init, c)) {
            self.count_restarts(container);
        }
        let mut running = false;
        for container in statuses(status, "containerStatuses").rev() {
            self.count_restarts(container);
            let state = &container["state"];
            let terminated = &state["terminated"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !terminated.is_null() {
                self.reason = end_reason(terminated);
            } else if container["ready"] == true && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            let ready = condition(status, "Ready") == Some("True");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count_restarts(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or(0);
        let finished = container["lastState"]["terminated"]["finishedAt"].as_str();
        let finished = finished.and_then(|text| text.parse::<Timestamp>().ok());
        self.last_restart = self.last_restart.max(finished);
    }
}

fn pod_reason(status: &Value) -> String {
    let gated = statuses(status, "conditions")
        .any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated");
    if gated {
        return "SchedulingGated".to_owned();
    }
    let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    text("reason").or(text("phase")).unwrap_or_default().to_owned()
}

/// Why a container ended: its reason, or the signal or exit code.
fn end_reason(terminated: &Value) -> String {
    match (terminated["reason"].as_str().unwrap_or_default(), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_sidecar_status(init: &[Value], status: &Value) -> bool {
    init.iter().any(|container| container["name"] == status["name"] && containers::is_sidecar(container))
}

fn statuses<'a>(status: &'a Value, field: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
    status[field].as_array().into_iter().flatten()
}

fn condition<'a>(status: &'a Value, name: &str) -> Option<&'a str> {
    statuses(status, "conditions").find(|c| c["type"] == name).and_then(|c| c["status"].as_str())
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod["spec"]["readinessGates"].as_array().map(Vec::as_slice).unwrap_or_default();
    if gates.is_empty() {
        return table::NONE.to_owned();
    }
    let fulfilled = gates.iter().filter(|gate| {
        let name = gate["conditionType"].as_str().unwrap_or_default();
        condition(&pod["status"], name) == Some("True")
    });
    format!("{}/{}", fulfilled.count(), gates.len())
}
