use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::cri::{ContainerState, SandboxRecord};
use crate::pod::local_state::{Failure, ForcedTermination, Health, Target};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

const NOW: i64 = 1_000;

fn pod(policy: &str, metadata: Value, status: Value) -> DesiredPod {
    let mut metadata = metadata;
    metadata["uid"] = "u".into();
    metadata["name"] = "web".into();
    metadata["namespace"] = "ns".into();
    let spec = json!({"restartPolicy": policy, "containers": [{"name": "main", "image": "i"}]});
    let pod = json!({"metadata": metadata, "spec": spec, "status": status});
    DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()))
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

fn compute(desired_pod: &DesiredPod, record: &PodRecord, local_state: &LocalState) -> Value {
    let node = NodeAddress { host_ips: vec!["192.0.2.1".into()] };
    serde_json::to_value(status(desired_pod, record, local_state, &node, at(NOW))).unwrap()
}

/// `PHASE STATE`, where the state is `running`, `terminated:REASON` or `waiting:REASON`.
fn show(status: &Value) -> String {
    let state = &status["containerStatuses"][0]["state"];
    let (kind, value) = state.as_object().unwrap().iter().next().unwrap();
    let reason = value["reason"].as_str().map(|reason| format!(":{reason}")).unwrap_or_default();
    format!("{} {kind}{reason}", status["phase"].as_str().unwrap())
}

fn healthy() -> LocalState {
    let health = Health { started: true, ready: true, unhealthy: None };
    LocalState { health: [("c".to_owned(), health)].into(), ..LocalState::default() }
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
    let got = compute(&ended, &record(None, 0), &LocalState::default());
    assert_eq!((&got["phase"], &got["reason"]), (&json!("Failed"), &json!("Evicted")));
}

#[test]
fn a_pod_that_is_made_to_end_fails_when_nothing_runs() {
    let end = ForcedTermination {
        reason: "Evicted".into(),
        message: "low on memory".into(),
        at_once: true,
        rejected: false,
    };
    let local_state = LocalState { end: Some(end), ..healthy() };
    let desired_pod = pod("Always", json!({}), json!({}));
    let got = compute(&desired_pod, &record(Some(running()), 0), &local_state);
    assert_eq!((&got["phase"], &got["reason"]), (&json!("Running"), &json!("Evicted")));
    let conditions = got["conditions"].as_array().unwrap();
    let told = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("TerminationByKubelet")));
    assert_eq!(compute(&desired_pod, &record(Some(exited(137)), 0), &local_state)["phase"], "Failed");
    assert_eq!(compute(&desired_pod, &record(Some(exited(0)), 0), &local_state)["phase"], "Failed");
    assert_eq!(compute(&desired_pod, &record(None, 0), &local_state)["phase"], "Failed");
}

fn deleted(policy: &str, status: Value) -> DesiredPod {
    let metadata = json!({"deletionTimestamp": "1970-01-01T00:16:00Z", "deletionGracePeriodSeconds": 30});
    pod(policy, metadata, status)
}

#[test]
fn pod_deleted_before_its_container_started_is_failed() {
    let check = |policy: &str, state: Option<ContainerState>, want: &str| {
        let got = compute(&deleted(policy, json!({})), &record(state.clone(), 0), &healthy());
        assert_eq!(show(&got), want, "{policy} {state:?}");
    };
    for policy in ["Always", "OnFailure", "Never"] {
        check(policy, None, "Failed terminated:ContainerStatusUnknown");
        check(policy, Some(ContainerState::Created), "Failed terminated:ContainerStatusUnknown");
        check(policy, Some(exited(1)), "Failed terminated:Error");
        check(policy, Some(exited(0)), "Succeeded terminated:Completed");
        check(policy, Some(running()), "Running running");
    }
    // Not even a sandbox was made.
    let nothing = compute(&deleted("Never", json!({})), &PodRecord::default(), &LocalState::default());
    assert_eq!(show(&nothing), "Failed terminated:ContainerStatusUnknown");
}

#[test]
fn phase_is_not_final_while_a_start_is_under_way() {
    let check = |target: Target, stopped: bool, want: &str| {
        let local_state = LocalState { busy: [target.clone()].into(), stopped, ..LocalState::default() };
        let got = compute(&deleted("Never", json!({})), &record(None, 0), &local_state);
        assert_eq!(got["phase"], want, "{target:?} {stopped}");
    };
    check(Target::Container("main".into()), false, "Pending");
    check(Target::Pod, false, "Pending");
    // Files are written, or the sandbox of a pod that has stopped is: neither starts anything.
    check(Target::Volumes, false, "Failed");
    check(Target::Pod, true, "Failed");
}

#[test]
fn running_container_of_a_failed_pod_is_told_as_running() {
    let failed = pod("Always", json!({}), json!({"phase": "Failed"}));
    assert_eq!(show(&compute(&failed, &record(Some(running()), 0), &healthy())), "Failed running");
}

#[test]
fn rejected_pod_has_no_container_statuses() {
    let (reason, message) = ("OutOfcpu".to_owned(), "Pod was rejected: …".to_owned());
    let end = ForcedTermination { reason, message, at_once: true, rejected: true };
    let local_state = LocalState { end: Some(end), ..LocalState::default() };
    let got = compute(&pod("Always", json!({}), json!({})), &PodRecord::default(), &local_state);
    assert_eq!((&got["phase"], &got["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
    assert_eq!(got["containerStatuses"], Value::Null);
    // A later agent, which has only the status, says the same.
    let again =
        compute(&pod("Always", json!({}), got.clone()), &PodRecord::default(), &LocalState::default());
    assert_eq!(again["containerStatuses"], Value::Null);
    assert_eq!((&again["phase"], &again["message"]), (&got["phase"], &got["message"]));
}

#[test]
fn the_phase_is_final_only_when_the_sidecars_have_ended_too() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}],
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}]});
    let pod = json!({"metadata": {"uid": "u"}, "spec": spec, "status": {}});
    let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
    let check = |main: i32, side: ContainerState, want: &str| {
        let mut record = record(Some(exited(main)), 0);
        let side = ContainerRecord {
            name: "side".into(),
            id: "d".into(),
            state: side,
            ..record.containers[0].clone()
        };
        record.containers.push(side.clone());
        assert_eq!(compute(&desired_pod, &record, &healthy())["phase"], want, "{main} {side:?}");
    };
    check(0, running(), "Running");
    check(1, running(), "Running");
    check(0, exited(143), "Succeeded");
    check(1, exited(0), "Failed");
}

#[test]
fn failures_are_shown_while_they_last() {
    let desired_pod = pod("Always", json!({}), json!({}));
    let mut local_state = LocalState::default();
    let failure = Failure {
        reason: "ErrImagePull",
        message: "no such host".into(),
        since: at(NOW),
        retry_at: at(NOW + 10),
        count: 1,
    };
    local_state.failures.insert(Target::Container("main".into()), failure.clone());
    assert_eq!(show(&compute(&desired_pod, &record(None, 0), &local_state)), "Pending waiting:ErrImagePull");
    local_state.failures.insert(Target::Container("main".into()), Failure { since: at(NOW - 5), ..failure });
    assert_eq!(
        show(&compute(&desired_pod, &record(None, 0), &local_state)),
        "Pending waiting:ImagePullBackOff"
    );
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
        let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
        let got = compute(&desired_pod, &record(Some(running()), 0), &healthy());
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
    let got = compute(&pod("Always", json!({}), reported), &record(None, 0), &LocalState::default());
    let status = &got["containerStatuses"][0];
    assert_eq!(status["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!((&status["restartCount"], &status["ready"]), (&json!(3), &json!(false)));
}

#[test]
fn addresses() {
    let desired_pod = pod("Always", json!({}), json!({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}));
    let mut record = record(Some(running()), 0);
    assert_eq!(compute(&desired_pod, &record, &healthy())["podIP"], "10.0.0.2");
    record.sandboxes[0].ready = false;
    assert_eq!(compute(&desired_pod, &record, &healthy())["podIP"], "10.0.0.9");
}
