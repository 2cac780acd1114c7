use serde_json::{Value, json};

use super::Pods;
use crate::{FieldErrors, Strategy};

fn at(text: &str) -> jiff::Timestamp {
    text.parse().expect("timestamp")
}

/// Ready, Status and Restarts of a pod with two init and two main containers.
fn check(status: Value, deleted: bool, expected: [&str; 3]) {
    let mut pod = json!({
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "initContainers": [{"name": "i1"}, {"name": "i2", "restartPolicy": "Always"}],
            "containers": [{"name": "a"}, {"name": "b"}],
        },
        "status": status,
    });
    if deleted {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:05:00Z");
    }
    let row = Pods.row(&pod, at("2026-01-01T00:10:00Z"));
    let paths: Vec<&[&str]> = Pods.row_paths().expect("paths").to_vec();
    assert_eq!(Pods.row(&only(&pod, &paths), at("2026-01-01T00:10:00Z")), row, "{pod}");
    assert_eq!(row.len(), Pods.columns().expect("columns").len());
    let shown: Vec<&str> = row[1..4].iter().map(|cell| cell.as_str().expect("text")).collect();
    assert_eq!(shown, expected, "{pod}");
}

/// The fields at these paths, through all elements of lists.
fn only(value: &Value, paths: &[&[&str]]) -> Value {
    match value {
        _ if paths.contains(&&[][..]) => value.clone(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let below: Vec<&[&str]> =
                    paths.iter().filter(|path| path[0] == name).map(|path| &path[1..]).collect();
                (name.clone(), if below.is_empty() { Value::Null } else { only(value, &below) })
            })
            .filter(|(_, value)| !value.is_null())
            .collect(),
        Value::Array(list) => list.iter().map(|value| only(value, paths)).collect(),
        scalar => scalar.clone(),
    }
}

fn running() -> Value {
    json!({"ready": true, "restartCount": 0, "state": {"running": {}}})
}

#[test]
fn statuses() {
    let done = json!({"name": "i1", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let sidecar = json!({"name": "i2", "started": true, "ready": true, "state": {"running": {}}});
    let init = json!([done, sidecar]);
    let waiting = |reason: &str| json!({"restartCount": 0, "state": {"waiting": {"reason": reason}}});
    let ended = |terminated: Value| json!({"restartCount": 0, "state": {"terminated": terminated}});

    check(json!({"phase": "Pending"}), false, ["0/3", "Pending", "0"]);
    check(json!({"phase": "Failed", "reason": "Evicted"}), false, ["0/3", "Evicted", "0"]);
    check(json!({"phase": "Pending"}), true, ["0/3", "Terminating", "0"]);
    check(json!({"phase": "Running", "reason": "NodeLost"}), true, ["0/3", "Unknown", "0"]);
    check(
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
        false,
        ["0/3", "SchedulingGated", "0"],
    );
    check(
        json!({"phase": "Pending", "initContainerStatuses": [{"name": "i1", "state": {"running": {}}}]}),
        false,
        ["0/3", "Init:0/2", "0"],
    );
    check(
        json!({"phase": "Pending", "initContainerStatuses": [waiting("CrashLoopBackOff")]}),
        false,
        ["0/3", "Init:CrashLoopBackOff", "0"],
    );
    check(
        json!({"phase": "Pending", "initContainerStatuses": [ended(json!({"exitCode": 1}))]}),
        false,
        ["0/3", "Init:ExitCode:1", "0"],
    );
    check(
        json!({"phase": "Pending", "initContainerStatuses": init,
            "containerStatuses": [waiting("ContainerCreating"), waiting("ContainerCreating")]}),
        false,
        ["1/3", "ContainerCreating", "0"],
    );
    check(
        json!({"phase": "Running", "initContainerStatuses": init, "containerStatuses": [running(), running()]}),
        false,
        ["3/3", "Running", "0"],
    );
    check(
        json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 137, "signal": 9})), running()]}),
        false,
        ["1/3", "Signal:9", "0"],
    );
    check(
        json!({"phase": "Running", "containerStatuses": [ended(json!({"reason": "Completed"})), running()]}),
        false,
        ["1/3", "NotReady", "0"],
    );
    let last = json!({"terminated": {"finishedAt": "2026-01-01T00:05:00Z"}});
    let restarted = json!({"ready": true, "restartCount": 3, "lastState": last, "state": {"running": {}}});
    check(
        json!({"phase": "Running", "containerStatuses": [restarted, running()]}),
        false,
        ["2/3", "Running", "3 (5m ago)"],
    );
}

#[test]
fn grace() {
    let pod = |node: &str, phase: &str, seconds: i64| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": seconds}, "status": {"phase": phase}});
    for (pod, requested, expected) in [
        (pod("", "Pending", 30), None, 0),
        (pod("n", "Running", 30), None, 30),
        (pod("n", "Running", 30), Some(5), 5),
        (pod("n", "Running", 30), Some(0), 0),
        (pod("n", "Running", -3), None, 1),
        (pod("n", "Succeeded", 30), Some(5), 0),
        (pod("n", "Failed", 30), None, 0),
    ] {
        assert_eq!(Pods.grace_seconds(&pod, requested), expected, "{pod} {requested:?}");
    }
}

#[test]
fn creation_settles_status_and_tolerations() {
    let mut pod = json!({
        "spec": {"containers": [], "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
        "status": {"phase": "Running"},
    });
    Pods.prepare_create(&mut pod);
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    let keys: Vec<&Value> =
        pod["spec"]["tolerations"].as_array().expect("list").iter().map(|t| &t["key"]).collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
}

#[test]
fn tolerations_of_lost_nodes_come_back_on_update() {
    let mut old = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
    Pods.prepare_create(&mut old);
    let mut new = old.clone();
    new["spec"]["tolerations"] = json!([{"key": "mine", "operator": "Exists"}]);
    Pods.prepare_update(&mut new, &old);
    let keys: Vec<&Value> =
        new["spec"]["tolerations"].as_array().expect("list").iter().map(|t| &t["key"]).collect();
    assert_eq!(keys, ["mine", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    let mut errors = FieldErrors::default();
    Pods.validate_change("", &new, &old, &mut errors);
    assert!(errors.is_empty(), "{errors:?}");
    let mut without_spec = json!({});
    Pods.prepare_update(&mut without_spec, &old);
    assert_eq!(without_spec, json!({}));
}

#[test]
fn pod_that_is_limited_as_a_whole_alone_is_guaranteed() {
    let class = |requests: Value, limits: Value| {
        let container = json!({"name": "a", "image": "i", "resources": {"requests": requests}});
        let mut pod = json!({"spec": {"containers": [container], "resources": {"limits": limits}}});
        Strategy::default(&Pods, &mut pod);
        Pods.prepare_create(&mut pod);
        pod["status"]["qosClass"].clone()
    };
    let both = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(class(json!({}), both.clone()), "Guaranteed");
    assert_eq!(class(json!({"cpu": "500m"}), both), "Burstable");
    assert_eq!(class(json!({}), json!({"cpu": "1"})), "Burstable");
}

#[test]
fn pod_stored_without_requests_of_its_own_keeps_its_resources() {
    let check = |resources: Value, defaulted: Value| {
        let container = json!({"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}}});
        let mut old = json!({"spec": {"containers": [container]}});
        Strategy::default(&Pods, &mut old);
        Pods.prepare_create(&mut old);
        old["spec"]["resources"] = resources;
        let mut new = old.clone();
        new["metadata"] = json!({"labels": {"a": "b"}});
        Strategy::default(&Pods, &mut new);
        assert_eq!(new["spec"]["resources"]["requests"], defaulted);
        Pods.prepare_update(&mut new, &old);
        assert_eq!(new["spec"], old["spec"]);
        let mut errors = FieldErrors::default();
        Pods.validate(&new, &mut errors);
        Pods.validate_change("", &new, &old, &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        // Whoever says more changes it.
        new["spec"]["resources"]["requests"] = json!({"cpu": "1"});
        Strategy::default(&Pods, &mut new);
        Pods.prepare_update(&mut new, &old);
        assert_eq!(new["spec"]["resources"]["requests"]["cpu"], "1");
    };
    let limits = json!({"cpu": "1", "memory": "1Gi"});
    check(json!({"limits": limits}), json!({"cpu": "2", "memory": "1Gi"}));
    check(json!({"limits": limits, "requests": {}}), json!({"cpu": "2", "memory": "1Gi"}));
    check(json!({"limits": limits, "requests": {"memory": "1Mi"}}), json!({"memory": "1Mi", "cpu": "2"}));
}

#[test]
fn field_selectors() {
    let pod = json!({"spec": {"nodeName": "n"}, "status": {"podIP": "10.0.0.1"}});
    let fields = Pods.selectable(&pod);
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, Pods.selectable_names());
    assert!(fields.contains(&("status.podIP", "10.0.0.1".to_owned())));
    assert!(fields.contains(&("spec.hostNetwork", "false".to_owned())));
}

#[test]
fn addresses_agree() {
    let mut pod = json!({"status": {"podIP": "10.0.0.1", "hostIPs": [{"ip": "1.1.1.1"}]}});
    Strategy::default(&Pods, &mut pod);
    assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    assert_eq!(pod["status"]["hostIP"], json!("1.1.1.1"));
}
