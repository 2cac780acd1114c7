use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::cri::{ContainerState, SandboxRecord};
use crate::pod::notes::{End, Failure, Health};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

const NOW: i64 = 1_000;

fn pod(policy: &str, metadata: Value, status: Value) -> Blueprint {
    let mut metadata = metadata;
    metadata["uid"] = "u".into();
    metadata["name"] = "web".into();
    metadata["namespace"] = "ns".into();
    let spec = json!({"restartPolicy": policy, "containers": [{"name": "main", "image": "i"}]});
    let pod = json!({"metadata": metadata, "spec": spec, "status": status});
    Blueprint::new(Arc::new(serde_json::from_value(pod).unwrap()))
}

fn record(state: Option<ContainerState>, restart_delay: u64) -> PodRecord {
    let sandbox = SandboxRecord {
        id: "s".into(),
        attempt: 0,
        ready: true,
        created: at(0),
        ips: vec!["10.0.0.2".into()],
    };
    let container = state.map(|state| ContainerRecord {
        id: "c".into(),
        sandbox_id: "s".into(),
        name: "main".into(),
        attempt: 2,
        state,
        image: "i".into(),
        image_id: "sha256:1".into(),
        hash: String::new(),
        restart_delay: Duration::from_secs(restart_delay),
        log_path: String::new(),
        termination_message: String::new(),
        resources: String::new(),
    });
    PodRecord {
        sandboxes: vec![sandbox],
        containers: container.into_iter().collect(),
        ..PodRecord::default()
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started: at(900) }
}

fn exited(code: i32) -> ContainerState {
    let (reason, message) = (String::new(), String::new());
    ContainerState::Exited { started: Some(at(900)), finished: at(990), code, reason, message }
}

fn compute(blueprint: &Blueprint, record: &PodRecord, notes: &Notes) -> Value {
    let node = NodeAddress { host_ip: "192.0.2.1".into() };
    serde_json::to_value(status(blueprint, record, notes, &node, at(NOW))).unwrap()
}

/// `PHASE STATE`, where the state is `running`, `terminated:REASON` or `waiting:REASON`.
fn show(status: &Value) -> String {
    let state = &status["containerStatuses"][0]["state"];
    let (kind, value) = state.as_object().unwrap().iter().next().unwrap();
    let reason = value["reason"].as_str().map(|reason| format!(":{reason}")).unwrap_or_default();
    format!("{} {kind}{reason}", status["phase"].as_str().unwrap())
}

fn healthy() -> Notes {
    let health = Health { started: true, ready: true, unhealthy: None };
    Notes { health: [("c".to_owned(), health)].into(), ..Notes::default() }
}

#[test]
fn phases_and_states() {
    let check = |policy: &str, state: Option<ContainerState>, want: &str| {
        let got = compute(&pod(policy, json!({}), json!({})), &record(state.clone(), 20), &healthy());
        assert_eq!(show(&got), want, "{policy} {state:?}");
    };
    check("Always", None, "Pending waiting:ContainerCreating");
    check("Always", Some(ContainerState::Created), "Pending waiting:ContainerCreating");
    check("Always", Some(running()), "Running running");
    check("Always", Some(exited(1)), "Running waiting:CrashLoopBackOff");
    check("Always", Some(exited(0)), "Running waiting:CrashLoopBackOff");
    check("OnFailure", Some(exited(1)), "Running waiting:CrashLoopBackOff");
    check("OnFailure", Some(exited(0)), "Succeeded terminated:Completed");
    check("Never", Some(exited(1)), "Failed terminated:Error");
    check("Never", Some(exited(0)), "Succeeded terminated:Completed");
}

#[test]
fn between_end_and_restart_the_end_is_shown() {
    let got = compute(&pod("Always", json!({}), json!({})), &record(Some(exited(1)), 0), &healthy());
    assert_eq!(show(&got), "Running terminated:Error");
    assert_eq!(got["containerStatuses"][0]["restartCount"], 2);
}

#[test]
fn phases_that_ended_stay() {
    let ended = pod("Always", json!({}), json!({"phase": "Failed", "reason": "Evicted"}));
    let got = compute(&ended, &record(None, 0), &Notes::default());
    assert_eq!((&got["phase"], &got["reason"]), (&json!("Failed"), &json!("Evicted")));
}

#[test]
fn a_pod_that_is_made_to_end_fails_when_nothing_runs() {
    let end = End { reason: "Evicted".into(), message: "low on memory".into(), at_once: true };
    let notes = Notes { end: Some(end), ..healthy() };
    let blueprint = pod("Always", json!({}), json!({}));
    let got = compute(&blueprint, &record(Some(running()), 0), &notes);
    assert_eq!((&got["phase"], &got["reason"]), (&json!("Running"), &json!("Evicted")));
    let conditions = got["conditions"].as_array().unwrap();
    let told = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("TerminationByKubelet")));
    assert_eq!(compute(&blueprint, &record(Some(exited(137)), 0), &notes)["phase"], "Failed");
    assert_eq!(compute(&blueprint, &record(Some(exited(0)), 0), &notes)["phase"], "Failed");
    assert_eq!(compute(&blueprint, &record(None, 0), &notes)["phase"], "Failed");
}

#[test]
fn the_phase_is_final_only_when_the_sidecars_have_ended_too() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}],
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}]});
    let pod = json!({"metadata": {"uid": "u"}, "spec": spec, "status": {}});
    let blueprint = Blueprint::new(Arc::new(serde_json::from_value(pod).unwrap()));
    let check = |main: i32, side: ContainerState, want: &str| {
        let mut record = record(Some(exited(main)), 0);
        let side = ContainerRecord {
            name: "side".into(),
            id: "d".into(),
            state: side,
            ..record.containers[0].clone()
        };
        record.containers.push(side.clone());
        assert_eq!(compute(&blueprint, &record, &healthy())["phase"], want, "{main} {side:?}");
    };
    check(0, running(), "Running");
    check(1, running(), "Running");
    check(0, exited(143), "Succeeded");
    check(1, exited(0), "Failed");
}

#[test]
fn failures_are_shown_while_they_last() {
    let blueprint = pod("Always", json!({}), json!({}));
    let mut notes = Notes::default();
    let failure = Failure {
        reason: "ErrImagePull",
        message: "no such host".into(),
        since: at(NOW),
        retry_at: at(NOW + 10),
        count: 1,
    };
    notes.failures.insert(Target::Container("main".into()), failure.clone());
    assert_eq!(show(&compute(&blueprint, &record(None, 0), &notes)), "Pending waiting:ErrImagePull");
    notes.failures.insert(Target::Container("main".into()), Failure { since: at(NOW - 5), ..failure });
    assert_eq!(show(&compute(&blueprint, &record(None, 0), &notes)), "Pending waiting:ImagePullBackOff");
}

#[test]
fn conditions_keep_their_times_and_those_of_others() {
    let before = |ready: &str| {
        json!({"conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:00:07Z"},
            {"type": "example.com/Gate", "status": "True"},
        ]})
    };
    let check = |old: &str, seconds: &str| {
        let got = compute(&pod("Always", json!({}), before(old)), &record(Some(running()), 0), &healthy());
        let conditions = got["conditions"].as_array().unwrap();
        let find = |kind: &str| conditions.iter().find(|c| c["type"] == kind).unwrap();
        assert_eq!(find("Ready")["status"], "True");
        assert_eq!(find("Ready")["lastTransitionTime"], seconds);
        assert_eq!(find("example.com/Gate")["status"], "True");
    };
    check("True", "1970-01-01T00:00:07Z");
    check("False", "1970-01-01T00:16:40Z");
}

#[test]
fn readiness_gates_are_waited_for() {
    let gated = |status: Value| {
        let spec = json!({"containers": [{"name": "main", "image": "i"}],
            "readinessGates": [{"conditionType": "example.com/Gate"}]});
        let pod = json!({"metadata": {"uid": "u"}, "spec": spec, "status": status});
        let blueprint = Blueprint::new(Arc::new(serde_json::from_value(pod).unwrap()));
        let got = compute(&blueprint, &record(Some(running()), 0), &healthy());
        let conditions = got["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|c| c["type"] == "Ready").unwrap()
    };
    assert_eq!(gated(json!({}))["reason"], "ReadinessGatesNotReady");
    let open = json!({"conditions": [{"type": "example.com/Gate", "status": "True"}]});
    assert_eq!(gated(open)["status"], "True");
}

#[test]
fn a_container_that_the_runtime_forgot_is_told_of() {
    let reported = json!({"containerStatuses": [{"name": "main", "containerID": "containerd://old",
        "restartCount": 3, "image": "i", "imageID": "", "ready": true, "state": {"running": {}}}]});
    let got = compute(&pod("Always", json!({}), reported), &record(None, 0), &Notes::default());
    let status = &got["containerStatuses"][0];
    assert_eq!(status["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!((&status["restartCount"], &status["ready"]), (&json!(3), &json!(false)));
}

#[test]
fn addresses() {
    let blueprint = pod("Always", json!({}), json!({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}));
    let mut record = record(Some(running()), 0);
    assert_eq!(compute(&blueprint, &record, &healthy())["podIP"], "10.0.0.2");
    record.sandboxes[0].ready = false;
    assert_eq!(compute(&blueprint, &record, &healthy())["podIP"], "10.0.0.9");
}
