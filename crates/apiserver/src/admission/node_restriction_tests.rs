use serde_json::json;

use super::*;

fn node(name: &str, spec: Value, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": spec})
}

fn pod(node: &str, spec: Value, mirror: bool) -> Value {
    let annotations = if mirror { json!({"kubernetes.io/config.mirror": "x"}) } else { json!({}) };
    let mut pod = json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec});
    pod["spec"]["nodeName"] = node.into();
    pod
}

#[test]
fn a_node_says_of_a_claim_how_large_it_is() {
    let claim =
        |labels: Value, status: Value| json!({"metadata": {"name": "c", "labels": labels}, "status": status});
    let old = claim(json!({"a": "b"}), json!({"phase": "Bound", "capacity": {"storage": "1Gi"}}));
    let update = |labels: Value, status: Value, ok: bool| {
        let new = claim(labels, status);
        let answer = check("a", ("", "persistentvolumeclaims"), Operation::Update, &new, Some(&old));
        assert_eq!(answer.is_ok(), ok, "{new}");
    };
    let (labels, larger) = (json!({"a": "b"}), json!({"storage": "2Gi"}));
    let resized =
        json!({"phase": "Bound", "capacity": larger, "conditions": [], "allocatedResources": larger});
    update(labels.clone(), resized.clone(), true);
    update(labels.clone(), json!({"phase": "Lost", "capacity": {"storage": "1Gi"}}), false);
    update(labels, json!({"phase": "Bound", "modifyVolumeStatus": {"status": "Pending"}}), false);
    update(json!({"a": "c"}), resized, false);
}

#[test]
fn a_node_writes_about_itself() {
    let create = |resource: (&str, &str), object: Value, ok: bool| {
        let answer = check("a", resource, Operation::Create, &object, None);
        assert_eq!(answer.is_ok(), ok, "{resource:?} {object}: {answer:?}");
    };
    let nodes = ("", "nodes");
    let hostname = json!({"kubernetes.io/hostname": "a", "disk": "ssd", "example.com/x": "1"});
    create(nodes, node("a", json!({"taints": [{"key": "k"}]}), hostname), true);
    create(nodes, node("b", json!({}), json!({})), false);
    create(nodes, node("a", json!({"podCIDR": "10.0.0.0/24"}), json!({})), false);
    for label in ["node-restriction.kubernetes.io/x", "node-role.kubernetes.io/control-plane", "x.k8s.io/y"] {
        create(nodes, node("a", json!({}), json!({label: ""})), false);
    }
    let leases = ("coordination.k8s.io", "leases");
    let lease = |name: &str, namespace: &str| json!({"metadata": {"name": name, "namespace": namespace}});
    create(leases, lease("a", "kube-node-lease"), true);
    create(leases, lease("b", "kube-node-lease"), false);
    create(leases, lease("a", "kube-system"), false);
    let pods = ("", "pods");
    create(pods, pod("a", json!({}), true), true);
    create(pods, pod("b", json!({}), true), false);
    create(pods, pod("a", json!({}), false), false);
    create(pods, pod("a", json!({"serviceAccountName": "admin"}), true), false);
    let secret = json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]});
    create(pods, pod("a", secret, true), false);
    let capacities = ("storage.k8s.io", "csistoragecapacities");
    create(capacities, lease("local.minik8s.io.a", "kube-system"), true);
    create(capacities, lease("local.minik8s.io.b", "kube-system"), false);
    create(capacities, lease("local.minik8s.io.a", "ns"), false);
    create(capacities, lease("csisc-x", "kube-system"), false);
    let slices = ("resource.k8s.io", "resourceslices");
    create(slices, json!({"spec": {"nodeName": "a"}}), true);
    for other in [json!({"nodeName": "b"}), json!({"allNodes": true}), json!({"nodeSelector": {}})] {
        create(slices, json!({"spec": other}), false);
    }
    create(("", "events"), json!({"metadata": {"name": "e"}}), true);
}

#[test]
fn node_asks_for_certificates_of_its_own_pods_only() {
    let spec = json!({"nodeName": "a", "podName": "p", "podUID": "u", "serviceAccountName": "s", "serviceAccountUID": "t"});
    let pod = json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "a", "serviceAccountName": "s"}});
    let account = json!({"metadata": {"uid": "t"}});
    assert_eq!(own_certificate("a", &spec, &pod, &account), Ok(()));
    let nothing = Value::Null;
    assert!(own_certificate("a", &spec, &nothing, &account).is_err());
    assert!(own_certificate("a", &spec, &pod, &nothing).is_err());
    for (field, other) in [
        ("nodeName", "b"),
        ("podUID", "older"),
        ("serviceAccountName", "admin"),
        ("serviceAccountUID", "older"),
    ] {
        let mut spec = spec.clone();
        spec[field] = other.into();
        assert!(own_certificate("a", &spec, &pod, &account).is_err(), "{field}");
    }
    let mut elsewhere = pod.clone();
    elsewhere["spec"]["nodeName"] = "b".into();
    assert!(own_certificate("a", &spec, &elsewhere, &account).is_err());
    let mut mirror = pod;
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    assert!(own_certificate("a", &spec, &mirror, &account).is_err());
}

#[test]
fn a_node_changes_little_of_itself() {
    let update = |old: Value, new: Value, ok: bool| {
        let answer = check("a", ("", "nodes"), Operation::Update, &new, Some(&old));
        assert_eq!(answer.is_ok(), ok, "{new}: {answer:?}");
    };
    let (tainted, role) = (json!({"taints": [{"key": "k"}]}), json!({"node-role.kubernetes.io/x": ""}));
    let plain = || node("a", json!({"podCIDR": "10.0.0.0/24"}), json!({}));
    update(
        plain(),
        node("a", json!({"podCIDR": "10.0.0.0/24", "unschedulable": true}), json!({"l": "1"})),
        true,
    );
    update(plain(), node("a", json!({"podCIDR": "10.0.1.0/24"}), json!({})), false);
    update(node("a", tainted.clone(), json!({})), node("a", json!({}), json!({})), false);
    update(node("a", json!({}), role.clone()), node("a", json!({}), role.clone()), true);
    update(node("a", json!({}), role), node("a", json!({}), json!({})), false);
    for (at, ok) in [("a", true), ("b", false)] {
        let pod = pod(at, json!({}), false);
        assert_eq!(check("a", ("", "pods"), Operation::Update, &pod, Some(&pod)).is_ok(), ok);
        assert_eq!(check("a", ("", "pods"), Operation::Delete, &pod, Some(&pod)).is_ok(), ok);
    }
}

#[test]
fn node_takes_its_finalizer_from_a_volume_and_nothing_else() {
    let old = json!({"metadata": {"name": "v", "finalizers": ["kubernetes.io/pv-protection", "local.minik8s.io/image"]},
        "spec": {"capacity": {"storage": "1Gi"}}});
    let update = |path: &str, value: Value, ok: bool| {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        let answer = check("a", ("", "persistentvolumes"), Operation::Update, &new, Some(&old));
        assert_eq!(answer.is_ok(), ok, "{path}: {answer:?}");
    };
    update("/metadata/finalizers", json!(["kubernetes.io/pv-protection"]), true);
    update("/metadata/finalizers", json!([]), false);
    update("/spec/capacity/storage", json!("9Gi"), false);
}

#[test]
fn node_changes_of_a_pods_status_its_word_only() {
    let old = json!({
        "metadata": {"name": "p", "labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]},
    });
    let update = |path: &str, value: Value, why: Option<&str>| {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        let answer = check("a", ("", "pods"), Operation::Update, &new, Some(&old));
        let why = why.map(|why| format!("node \"a\" cannot update {why}"));
        assert_eq!(answer.err(), why, "{path}");
    };
    update("/status/phase", json!("Running"), None);
    update("/metadata/labels", json!({"app": "payments"}), Some("labels through pod status"));
    update("/metadata/labels", Value::Null, Some("labels through pod status"));
    update("/metadata/annotations", json!({"a": "c"}), Some("annotations through pod status"));
    let claims = json!([{"name": "c", "resourceClaimName": "other"}]);
    update("/status/resourceClaimStatuses", claims, Some("resource claim statuses"));
    let mut new = old.clone();
    new["status"]["extendedResourceClaimStatus"] = json!({"resourceClaimName": "other"});
    assert!(check("a", ("", "pods"), Operation::Update, &new, Some(&old)).is_err());
}
