use serde_json::{Value, json};

use super::*;

/// A pod with some fields of its spec.
fn pod(uid: &str, spec: Value) -> core::Pod {
    let mut whole = json!({"nodeName": "n1", "containers": [{"name": "a", "image": "i"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"uid": uid}, "spec": whole})).unwrap()
}

fn asks(requests: Value) -> Value {
    json!({"containers": [{"name": "a", "resources": {"requests": requests}}]})
}

fn host_port(port: Value) -> Value {
    json!({"containers": [{"name": "a", "ports": [port]}]})
}

fn node() -> NodeView {
    let node = json!({"metadata": {"name": "n1", "labels": {"disk": "ssd"}},
        "spec": {"taints": [{"key": "gone", "effect": "NoExecute"}, {"key": "busy", "effect": "NoSchedule"}]}});
    let offered = json!({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "1"});
    let offered = serde_json::from_value(offered).unwrap();
    NodeView {
        node: serde_json::from_value(node).unwrap(),
        allocatable: Resources::of_map(Some(&offered)),
        pods: 3,
    }
}

/// Tolerates all that the node has, so that other reasons show.
fn tolerant(mut spec: Value) -> Value {
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    spec
}

fn judge(pod: &core::Pod, others: &[Value]) -> Result<Victims, Rejection> {
    let others: Vec<_> = others
        .iter()
        .enumerate()
        .map(|(n, spec)| Footprint::of(&self::pod(&format!("other-{n}"), spec.clone())))
        .collect();
    admit(pod, &others.iter().collect::<Vec<_>>(), &node())
}

#[test]
fn admission_rejects_in_upstreams_words_and_order() {
    let check = |spec: Value, others: &[Value], reason: &str, message: &str| {
        let want = Rejection { reason: reason.to_owned(), message: message.to_owned() };
        assert_eq!(judge(&pod("own", spec.clone()), others), Err(want), "{spec}");
    };
    let resource = |name: &str, wanted: &str, requested: i64, used: i64, capacity: i64| {
        let message = format!(
            "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        let others = [asks(json!({"cpu": "500m"}))];
        check(tolerant(asks(json!({name: wanted}))), &others, &format!("OutOf{name}"), &message);
    };
    resource("cpu", "1000", 1_000_000, 500, 2000);
    resource("memory", "2Gi", 2 << 30, 0, 1 << 30);
    resource("ephemeral-storage", "2Gi", 2 << 30, 0, 1 << 30);
    resource("example.com/gpu", "2", 2, 0, 1);
    resource("hugepages-2Mi", "2Mi", 2 << 20, 0, 0);
    let full = [json!({}), json!({}), json!({})];
    let message = "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3";
    check(tolerant(asks(json!({"cpu": "1000"}))), &full, "OutOfpods", message);

    let predicate = |spec: Value, others: &[Value], name: &str, why: &str| {
        check(spec, others, name, &format!("Predicate {name} failed: {why}"));
    };
    let affinity = "node(s) didn't match Pod's node affinity/selector";
    predicate(json!({"nodeSelector": {"disk": "hdd"}}), &[], "NodeAffinity", affinity);
    let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]);
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    predicate(tolerant(json!({"affinity": {"nodeAffinity": required}})), &[], "NodeAffinity", affinity);
    let name = "node(s) didn't match the requested node name";
    predicate(json!({"nodeName": "n2"}), &[], "NodeName", name);
    let port = || host_port(json!({"containerPort": 80, "hostPort": 80}));
    let ports = "node(s) didn't have free ports for the requested pod ports";
    predicate(port(), &[port()], "NodePorts", ports);
    predicate(json!({}), &[], "TaintToleration", "node(s) had taints that the pod didn't tolerate");
    // Resources come first, and of the rest the earlier.
    let mut all = asks(json!({"cpu": "3"}));
    all["nodeSelector"] = json!({"disk": "hdd"});
    let message = "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000";
    check(all, &[], "OutOfcpu", message);
}

#[test]
fn admission_accepts_what_fits() {
    let check = |spec: Value, others: &[Value]| {
        assert_eq!(judge(&pod("own", tolerant(spec.clone())), others), Ok(Victims::new()), "{spec}");
    };
    check(json!({}), &[]);
    check(asks(json!({"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"})), &[asks(json!({"cpu": "1"}))]);
    check(json!({"nodeSelector": {"disk": "ssd"}}), &[]);
    // Nothing this node knows of: one of the whole cluster's.
    check(asks(json!({"example.com/licence": "5"})), &[]);
    let port = |ip: &str, protocol: &str| {
        host_port(json!({"containerPort": 80, "hostPort": 80, "hostIP": ip, "protocol": protocol}))
    };
    check(port("127.0.0.1", "TCP"), &[port("127.0.0.2", "TCP"), port("", "UDP")]);
    // Only those that evict count here: who bound the pod did not mind the others.
    let tolerations = json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute"}]);
    assert_eq!(judge(&pod("own", json!({"tolerations": tolerations})), &[]), Ok(Victims::new()));
}

#[test]
fn admission_rejects_other_operating_systems() {
    let check = |metadata: Value, os: Value, want: &str| {
        let mut pod = pod("own", tolerant(json!({"os": os})));
        pod.metadata = serde_json::from_value(metadata).unwrap();
        assert_eq!(judge(&pod, &[]).unwrap_err().reason, want);
    };
    check(json!({}), json!({"name": "windows"}), "PodOSNotSupported");
    let label = json!({"labels": {"kubernetes.io/os": "windows"}});
    check(label, Value::Null, "PodOSSelectorNodeLabelDoesNotMatch");
}

#[test]
fn admission_ignores_taints_and_shortage_for_static_pods() {
    let mut pod = pod("own", json!({}));
    pod.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
    assert_eq!(judge(&pod, &[]), Ok(Victims::new()));
}

#[test]
fn footprint_of_a_pending_resize_is_what_the_pod_has() {
    let mut greedy = pod("other", asks(json!({"cpu": "1000"})));
    greedy.status =
        serde_json::from_value(json!({"conditions": [{"type": "PodResizePending", "status": "True"}],
        "containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": "300m"}}]}))
        .unwrap();
    assert_eq!(Footprint::of(&greedy).requests.cpu, 300);
}

#[test]
fn preemption_chooses_the_fewest_of_the_weakest() {
    let critical = |requests: Value| {
        let mut spec = tolerant(asks(requests));
        spec["priority"] = 2_000_001_000.into();
        pod("own", spec)
    };
    let guaranteed = |cpu: &str| {
        let amounts = json!({"cpu": cpu, "memory": "1Mi"});
        json!({"containers": [{"name": "a", "resources": {"requests": amounts, "limits": amounts}}]})
    };
    let burstable = |cpu: &str| asks(json!({"cpu": cpu}));
    let check = |requests: Value, others: &[Value], want: &[&str]| {
        assert_eq!(judge(&critical(requests), others).unwrap(), want, "{others:?}");
    };
    let one = || json!({"cpu": "1"});
    check(one(), &[burstable("1")], &[]);
    // The nearest, and one rather than two.
    check(one(), &[burstable("200m"), burstable("800m"), burstable("1")], &["other-2"]);
    // A stronger class only if the weaker cannot give enough.
    check(one(), &[guaranteed("1"), burstable("500m"), burstable("500m")], &["other-1", "other-2"]);
    check(json!({"cpu": "2"}), &[guaranteed("1"), burstable("500m")], &["other-1", "other-0"]);
    // Besteffort pods give back a place, nothing else.
    check(json!({}), &[json!({}), burstable("100m"), json!({})], &["other-0"]);
}

#[test]
fn preemption_spares_critical_pods_and_keeps_other_reasons() {
    let critical = |mut spec: Value| {
        spec["priority"] = 2_000_000_000.into();
        tolerant(spec)
    };
    let rejection =
        judge(&pod("own", critical(asks(json!({"cpu": "1"})))), &[critical(asks(json!({"cpu": "2"})))]);
    let message = "Unexpected error while attempting to recover from admission failure: preemption: error finding a \
                   set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]";
    let want = Rejection { reason: "UnexpectedAdmissionError".to_owned(), message: message.to_owned() };
    assert_eq!(rejection, Err(want));
    let mut spec = critical(asks(json!({"cpu": "3"})));
    spec["nodeSelector"] = json!({"disk": "hdd"});
    assert_eq!(judge(&pod("own", spec), &[]).unwrap_err().reason, "NodeAffinity");
}
