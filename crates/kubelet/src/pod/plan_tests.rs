use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::cri::SandboxRecord;
use crate::pod::local_state::{Failure, Health, VolumeState};

const NOW: i64 = 100_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A pod with this spec; containers get an image.
fn desired_pod(spec: Value) -> DesiredPod {
    with_metadata(spec, json!({}), json!({}))
}

fn with_metadata(mut spec: Value, mut metadata: Value, status: Value) -> DesiredPod {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["image"] = "i".into();
        }
    }
    metadata["uid"] = "u".into();
    metadata["name"] = "web".into();
    let pod = json!({"metadata": metadata, "spec": spec, "status": status});
    DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()))
}

fn volumes(fresh: bool, renew_at: Option<Timestamp>) -> VolumeState {
    let mut volumes = VolumeState::default();
    volumes.wrote(volumes.state(), renew_at);
    if !fresh {
        volumes.source_changed();
    }
    volumes
}

fn sandbox(id: &str, ready: bool) -> SandboxRecord {
    let attempt = id[1..].parse().unwrap();
    SandboxRecord { id: id.into(), attempt, ready, created: at(0), ips: vec!["10.0.0.2".into()] }
}

/// `main/2@s0 running`, `main/0@s0 exited 1 @99990 +20`: name, attempt, sandbox, state.
fn container(text: &str) -> ContainerRecord {
    let words: Vec<_> = text.split(' ').collect();
    let (name, rest) = words[0].split_once('/').unwrap();
    let (attempt, sandbox_id) = rest.split_once('@').unwrap();
    let number = |prefix: char| {
        words.iter().find_map(|w| w.strip_prefix(prefix)).map_or(0, |n| n.parse::<i64>().unwrap())
    };
    let state = match words[1] {
        "created" => ContainerState::Created,
        "unknown" => ContainerState::Unknown,
        "running" => ContainerState::Running { started: at(10) },
        "exited" => ContainerState::Exited {
            started: Some(at(number('@') - 5)),
            finished: at(number('@')),
            code: words[2].parse().unwrap(),
            reason: String::new(),
            message: String::new(),
        },
        other => panic!("{other}"),
    };
    let spec: k8s_openapi::api::core::v1::Container =
        serde_json::from_value(json!({"name": name, "image": "i"})).unwrap();
    let desired_pod = desired_pod(json!({"containers": [spec]}));
    ContainerRecord {
        id: words[0].split('@').next().unwrap().into(),
        sandbox_id: sandbox_id.into(),
        name: name.into(),
        attempt: attempt.parse().unwrap(),
        state,
        image: "i".into(),
        image_id: String::new(),
        hash: desired_pod.containers[0].hash.clone(),
        restart_delay: Duration::from_secs(number('+') as u64),
        log_path: String::new(),
        termination_message: String::new(),
        resources: String::new(),
    }
}

fn record(sandboxes: &[(&str, bool)], containers: &[&str]) -> PodRecord {
    PodRecord {
        uid: "u".into(),
        namespace: "default".into(),
        name: "web".into(),
        sandboxes: sandboxes.iter().map(|(id, ready)| sandbox(id, *ready)).collect(),
        containers: containers.iter().map(|text| container(text)).collect(),
    }
}

/// Actions as short words, then `wake N` with seconds from now.
fn show(plan: &Plan) -> String {
    let mut words: Vec<String> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::RunSandbox { attempt, stop } => format!("sandbox {attempt} stop{stop:?}"),
            Action::StartContainer { name, attempt, restart_delay, discard, .. } => {
                let discard = discard.as_ref().map(|id| format!(" discard {id}")).unwrap_or_default();
                format!("start {name}/{attempt} +{}{discard}", restart_delay.as_secs())
            }
            Action::KillContainer { id, grace, .. } => format!("kill {id} {}", grace.as_secs()),
            Action::ResizeContainer { id, .. } => format!("resize {id}"),
            Action::RemoveContainer { id, .. } => format!("remove {id}"),
            Action::StopSandbox { id } => format!("stop {id}"),
            Action::SyncVolumes => "volumes".into(),
            Action::Release => "release".into(),
            Action::Remove => "remove all".into(),
        })
        .collect();
    if let Some(wake) = plan.wake {
        words.push(format!("wake {}", wake.as_second() - NOW));
    }
    words.join(", ")
}

/// Nothing remembered but that the volumes are as they should be.
fn calm() -> LocalState {
    let volumes = volumes(true, None);
    LocalState { volumes, ..LocalState::default() }
}

fn check_with(desired_pod: &DesiredPod, record: &PodRecord, local_state: &LocalState, want: &str) {
    assert_eq!(show(&plan(desired_pod, record, local_state, at(NOW))), want, "{record:#?}");
}

fn check(spec: Value, sandboxes: &[(&str, bool)], containers: &[&str], want: &str) {
    check_with(&desired_pod(spec), &record(sandboxes, containers), &calm(), want);
}

fn one(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "main"}]})
}

#[test]
fn a_pod_starts() {
    check(one("Always"), &[], &[], "sandbox 0 stop[]");
    check(one("Always"), &[("s0", true)], &[], "start main/0 +0");
    check(one("Always"), &[("s0", true)], &["main/0@s0 running"], "");
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    check(two, &[("s0", true)], &["a/0@s0 running"], "start b/0 +0");
}

#[test]
fn a_start_that_was_cut_short_is_made_again() {
    check(one("Always"), &[("s0", true)], &["main/3@s0 created"], "start main/3 +0 discard main/3");
}

#[test]
fn container_in_unknown_state_is_ended_to_be_started_again() {
    for policy in ["Always", "OnFailure", "Never"] {
        check(one(policy), &[("s0", true)], &["main/0@s0 unknown"], "kill main/0 30");
    }
    check(one("OnFailure"), &[("s0", true)], &["main/0@s0 exited 255 @99990"], "start main/1 +10");
}

#[test]
fn a_dead_sandbox_takes_its_containers_along() {
    check(one("Always"), &[("s0", false)], &["main/0@s0 running"], "kill main/0 1");
    check(one("Always"), &[("s0", false)], &["main/0@s0 exited 137 @99999"], r#"sandbox 1 stop["s0"]"#);
    let in_new = [("s1", true), ("s0", false)];
    check(one("Always"), &in_new, &["main/0@s0 exited 137 @99999"], "start main/1 +10");
}

#[test]
fn restart_policies() {
    let after = |policy: &str, code: i32, want: &str| {
        check(one(policy), &[("s0", true)], &[&format!("main/0@s0 exited {code} @99990")], want);
    };
    after("Always", 0, "start main/1 +10");
    after("Always", 1, "start main/1 +10");
    after("OnFailure", 1, "start main/1 +10");
    after("OnFailure", 0, "stop s0");
    after("Never", 1, "stop s0");
}

#[test]
fn restarts_wait_longer_each_time() {
    let after = |ended: &str, want: &str| check(one("Always"), &[("s0", true)], &[ended], want);
    after("main/1@s0 exited 1 @99999 +10", "wake 9");
    after("main/1@s0 exited 1 @99990 +10", "start main/2 +20");
    after("main/9@s0 exited 1 @99990 +300", "wake 290");
}

#[test]
fn old_incarnations_are_removed() {
    let containers =
        ["main/4@s0 running", "main/3@s0 exited 1 @5", "main/2@s0 exited 1 @4", "main/1@s0 exited 1 @3"];
    check(one("Always"), &[("s0", true)], &containers, "remove main/1");
    check(one("Always"), &[("s0", true)], &containers[..2], "");
}

#[test]
fn a_pod_that_ended_is_released_but_kept() {
    let ended = ["main/0@s0 exited 0 @99990"];
    check(one("Never"), &[("s0", true)], &ended, "stop s0");
    check(one("Never"), &[("s0", false)], &ended, "release");
    let released = LocalState { released: true, ..calm() };
    check_with(&desired_pod(one("Never")), &record(&[("s0", false)], &ended), &released, "");
    // Nothing starts again, even if the runtime lost everything.
    let terminal = with_metadata(one("Always"), json!({}), json!({"phase": "Failed"}));
    check_with(&terminal, &record(&[], &[]), &released, "");
}

#[test]
fn deletion_goes_step_by_step() {
    let deleted = json!({"deletionTimestamp": "1970-01-02T03:46:40Z", "deletionGracePeriodSeconds": 20});
    let desired_pod = with_metadata(one("Always"), deleted, json!({}));
    let since = |seconds| LocalState { stopping_since: Some(at(seconds)), ..calm() };
    let running = record(&[("s0", true)], &["main/0@s0 running"]);
    check_with(&desired_pod, &running, &since(NOW), "kill main/0 20");
    check_with(&desired_pod, &running, &since(NOW - 15), "kill main/0 5");
    check_with(&desired_pod, &running, &since(NOW - 60), "kill main/0 1");
    let mut busy = since(NOW);
    busy.busy.insert(Target::Container("main".into()));
    check_with(&desired_pod, &running, &busy, "");
    check_with(&desired_pod, &record(&[("s0", true)], &["main/0@s0 exited 0 @5"]), &busy, "");
    check_with(&desired_pod, &record(&[("s0", true)], &["main/0@s0 exited 0 @5"]), &since(NOW), "stop s0");
    check_with(
        &desired_pod,
        &record(&[("s0", false)], &["main/0@s0 exited 0 @5"]),
        &since(NOW),
        "remove all",
    );
    check_with(&desired_pod, &record(&[], &[]), &since(NOW), "remove all");
}

#[test]
fn init_containers_run_one_after_the_other() {
    let spec = || json!({"containers": [{"name": "main"}], "initContainers": [{"name": "a"}, {"name": "b"}]});
    let ready = [("s0", true)];
    check(spec(), &ready, &[], "start a/0 +0");
    check(spec(), &ready, &["a/0@s0 running"], "");
    check(spec(), &ready, &["a/0@s0 exited 0 @9"], "start b/0 +0");
    check(spec(), &ready, &["a/0@s0 exited 1 @99999"], "start a/1 +10");
    check(spec(), &ready, &["a/0@s0 exited 0 @9", "b/0@s0 exited 0 @9"], "start main/0 +0");
    // Once past them, a lost record of an init container does not matter.
    check(spec(), &ready, &["main/0@s0 running"], "");
    // A new sandbox runs them again.
    check(
        spec(),
        &[("s1", true), ("s0", false)],
        &["a/0@s0 exited 0 @9", "main/0@s0 exited 1 @9"],
        "start a/1 +10",
    );
    let mut never = spec();
    never["restartPolicy"] = "Never".into();
    check(never, &ready, &["a/0@s0 exited 1 @9"], "stop s0");
}

#[test]
fn sidecars_start_in_turn_and_stop_last() {
    let spec = json!({
        "restartPolicy": "Never",
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "late", "restartPolicy": "Always"}],
    });
    let started = |ids: &[&str]| LocalState {
        health: ids.iter().map(|id| ((*id).into(), Health { started: true, ..Health::default() })).collect(),
        ..calm()
    };
    let pod = desired_pod(spec);
    let ready = [("s0", true)];
    check_with(&pod, &record(&ready, &[]), &started(&[]), "start side/0 +0");
    check_with(&pod, &record(&ready, &["side/0@s0 running"]), &started(&[]), "");
    check_with(&pod, &record(&ready, &["side/0@s0 running"]), &started(&["side/0"]), "start late/0 +0");
    let both = started(&["side/0", "late/0"]);
    check_with(&pod, &record(&ready, &["side/0@s0 running", "late/0@s0 running"]), &both, "start main/0 +0");
    let all = |main: &str| record(&ready, &["side/0@s0 running", "late/0@s0 running", main]);
    // A sidecar is restarted whatever the pod's policy.
    let crashed = record(&ready, &["side/0@s0 exited 1 @9", "late/0@s0 running", "main/0@s0 running"]);
    check_with(&pod, &crashed, &both, "start side/1 +10");
    check_with(&pod, &all("main/0@s0 exited 0 @9"), &both, "kill late/0 30");
}

#[test]
fn unhealthy_and_changed_containers_are_replaced() {
    let running = record(&[("s0", true)], &["main/0@s0 running"]);
    let mut local_state = calm();
    local_state
        .health
        .insert("main/0".into(), Health { unhealthy: Some(("liveness".into(), None)), ..Health::default() });
    check_with(&desired_pod(one("Always")), &running, &local_state, "kill main/0 30");
    let mut changed = running.clone();
    changed.containers[0].hash = "other".into();
    check_with(&desired_pod(one("Always")), &changed, &calm(), "kill main/0 30");
}

#[test]
fn failures_are_waited_for() {
    let mut local_state = calm();
    let failure = Failure {
        reason: "ErrImagePull",
        message: String::new(),
        since: at(NOW),
        retry_at: at(NOW + 7),
        count: 1,
    };
    let earlier = Failure { since: at(NOW - 1), ..failure.clone() };
    local_state.failures.insert(Target::Container("main".into()), failure);
    // A failed pull becomes a back-off after a second.
    check_with(&desired_pod(one("Always")), &record(&[("s0", true)], &[]), &local_state, "wake 1");
    local_state.failures.insert(Target::Container("main".into()), earlier);
    check_with(&desired_pod(one("Always")), &record(&[("s0", true)], &[]), &local_state, "wake 7");
}

#[test]
fn volumes_are_kept_fresh() {
    let running = record(&[("s0", true)], &["main/0@s0 running"]);
    let volumes = |fresh, renew: Option<i64>, want: &str| {
        let volumes = volumes(fresh, renew.map(|s| at(NOW + s)));
        check_with(
            &desired_pod(one("Always")),
            &running,
            &LocalState { volumes, ..LocalState::default() },
            want,
        );
    };
    volumes(false, None, "volumes");
    volumes(true, Some(60), "wake 60");
    volumes(true, Some(0), "volumes");
}

#[test]
fn the_deadline_ends_a_pod() {
    let mut spec = one("Always");
    spec["activeDeadlineSeconds"] = 60.into();
    let started = |seconds: i64| {
        let start = at(NOW - seconds).to_string();
        with_metadata(spec.clone(), json!({}), json!({"startTime": start}))
    };
    let running = record(&[("s0", true)], &["main/0@s0 running"]);
    check_with(&started(50), &running, &calm(), "wake 10");
    check_with(&started(60), &running, &calm(), "kill main/0 30");
}

#[test]
fn restart_counts_survive_a_runtime_that_forgot() {
    let status = json!({"containerStatuses": [{"name": "main", "containerID": "containerd://x", "restartCount": 4,
        "image": "", "imageID": "", "ready": true}]});
    let desired_pod = with_metadata(one("Always"), json!({}), status);
    check_with(&desired_pod, &record(&[("s0", true)], &[]), &calm(), "start main/5 +0");
}
