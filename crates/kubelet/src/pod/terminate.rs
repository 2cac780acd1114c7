//! The states of containers in a pod whose phase is final. Pure.
//!
//! A container that nobody can find any more, or that was never made, is not waiting for anything: it is told as ended with
//! an unknown result, so that whoever counts failures (a Job's podFailurePolicy) has something to count. It never changes
//! what is known of a container that ended.

use k8s_openapi::api::core::v1 as core;

use super::desired_pod::{DesiredPod, Kind};

const REASON: &str = "ContainerStatusUnknown";
const MESSAGE: &str = "The container could not be located when the pod was terminated";
/// As if it had been killed.
const EXIT_CODE: i32 = 137;

/// Gives every container that had its turn a state that is final. `old` is what was told before.
pub fn settle(desired_pod: &DesiredPod, old: &core::PodStatus, status: &mut core::PodStatus) {
    if is_initialized(desired_pod, old) || is_initialized(desired_pod, status) {
        status.container_statuses.iter_mut().flatten().for_each(end);
    }
    let init = status.init_container_statuses.as_deref_mut().unwrap_or_default();
    // Those behind the last one that ever left the waiting state never had their turn; the first one always has it.
    let had_turn = init.iter().rposition(has_run).map_or(1, |last| last + 1);
    init.iter_mut().take(had_turn).for_each(end);
}

fn end(container: &mut core::ContainerStatus) {
    if container.state.as_ref().is_some_and(|state| state.terminated.is_some()) {
        return;
    }
    let terminated = core::ContainerStateTerminated {
        reason: Some(REASON.to_owned()),
        message: Some(MESSAGE.to_owned()),
        exit_code: EXIT_CODE,
        ..Default::default()
    };
    container.state = Some(core::ContainerState { terminated: Some(terminated), ..Default::default() });
    (container.ready, container.started) = (false, Some(false));
}

/// Whether the main containers had their turn.
fn is_initialized(desired_pod: &DesiredPod, status: &core::PodStatus) -> bool {
    let mut init =
        desired_pod.containers.iter().filter(|spec| matches!(spec.kind, Kind::Init | Kind::Sidecar));
    let Some(last) = init.next_back() else { return true };
    if status.container_statuses.iter().flatten().any(has_run) {
        return true;
    }
    let mut told = status.init_container_statuses.iter().flatten();
    let Some(told) = told.find(|told| told.name == last.spec.name) else { return false };
    let succeeded = |state: &Option<core::ContainerState>| {
        state.as_ref().and_then(|state| state.terminated.as_ref()).is_some_and(|end| end.exit_code == 0)
    };
    match last.kind {
        Kind::Sidecar => {
            told.started == Some(true) && told.state.as_ref().is_some_and(|state| state.running.is_some())
        }
        _ => succeeded(&told.state) || succeeded(&told.last_state),
    }
}

/// It left the waiting state at least once.
fn has_run(container: &core::ContainerStatus) -> bool {
    let waits = container.state.as_ref().is_none_or(|state| state.waiting.is_some());
    !waits || container.last_state.as_ref().is_some_and(|state| state.terminated.is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn told(list: &[&str]) -> Value {
        let state = |text: &str| match text {
            "waiting" => json!({"waiting": {"reason": "PodInitializing"}}),
            "running" => json!({"running": {}}),
            code => json!({"terminated": {"exitCode": code.parse::<i32>().unwrap()}}),
        };
        let status = |(number, text): (usize, &&str)| {
            json!({"name": number.to_string(), "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "started": *text == "running", "state": state(text)})
        };
        list.iter().enumerate().map(status).collect()
    }

    fn status(init: &[&str], main: &[&str]) -> core::PodStatus {
        let status = json!({"initContainerStatuses": told(init), "containerStatuses": told(main)});
        serde_json::from_value(status).unwrap()
    }

    /// The exit codes, `-` for a container that still waits.
    fn codes(list: &Option<Vec<core::ContainerStatus>>) -> String {
        let code = |status: &core::ContainerStatus| {
            let end = status.state.as_ref().and_then(|state| state.terminated.as_ref());
            end.map_or("-".to_owned(), |end| end.exit_code.to_string())
        };
        list.iter().flatten().map(code).collect::<Vec<_>>().join(" ")
    }

    fn pod(init: &[Value], main: usize) -> DesiredPod {
        let named = |number: usize, container: Value| {
            let mut container = container;
            container["name"] = number.to_string().into();
            container
        };
        let init: Vec<_> = init.iter().cloned().enumerate().map(|(n, c)| named(n, c)).collect();
        let main: Vec<_> = (0..main).map(|number| named(number, json!({}))).collect();
        let pod = json!({"metadata": {}, "spec": {"initContainers": init, "containers": main}});
        DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    #[test]
    fn container_never_made_is_terminated_with_unknown_status() {
        let check = |init: &[&str], main: &[&str], want_init: &str, want_main: &str| {
            let desired_pod = pod(&vec![json!({}); init.len()], main.len());
            let mut got = status(init, main);
            settle(&desired_pod, &core::PodStatus::default(), &mut got);
            let codes = (codes(&got.init_container_statuses), codes(&got.container_statuses));
            assert_eq!(codes, (want_init.to_owned(), want_main.to_owned()), "{init:?} {main:?}");
        };
        check(&[], &["waiting"], "", "137");
        check(&[], &["0", "waiting"], "", "0 137");
        check(&[], &["3"], "", "3");
        // Init containers that never had their turn go on waiting, and so do the main ones behind them.
        check(&["waiting", "waiting"], &["waiting"], "137 -", "-");
        check(&["0", "waiting", "waiting"], &["waiting"], "0 - -", "-");
        check(&["0", "1", "waiting"], &["waiting"], "0 1 -", "-");
        check(&["0", "0"], &["waiting"], "0 0", "137");
    }

    #[test]
    fn started_sidecar_gives_main_containers_their_turn() {
        let desired_pod = pod(&[json!({"restartPolicy": "Always"})], 1);
        let check = |old: &core::PodStatus, want: &str| {
            let mut got = status(&["143"], &["waiting"]);
            settle(&desired_pod, old, &mut got);
            assert_eq!(codes(&got.container_statuses), want);
        };
        check(&status(&["running"], &["waiting"]), "137");
        check(&status(&["waiting"], &["waiting"]), "-");
    }

    #[test]
    fn unknown_end_says_why() {
        let mut got = status(&[], &["waiting"]);
        settle(&pod(&[], 1), &core::PodStatus::default(), &mut got);
        let end = got.container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
        assert_eq!((end.reason.as_deref(), end.message.as_deref()), (Some(REASON), Some(MESSAGE)));
    }
}
