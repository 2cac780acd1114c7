use serde_json::{Value, json};

use crate::check;

fn stateful_set(spec: Value) -> Value {
    let container =
        json!({"name": "c", "image": "i:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
    let claim = json!({
        "metadata": {"name": "data", "creationTimestamp": null},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    });
    let mut full = json!({
        "selector": {"matchLabels": {"app": "a"}},
        "serviceName": "web",
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [claim],
    });
    full.as_object_mut().expect("object").extend(spec.as_object().expect("object").clone());
    json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T11:00:00Z"}, "spec": full})
}

#[test]
fn defaults() {
    let spec = check::defaulted("statefulsets", stateful_set(json!({})))["spec"].clone();
    for (field, expected) in [
        ("podManagementPolicy", json!("OrderedReady")),
        ("replicas", json!(1)),
        ("revisionHistoryLimit", json!(10)),
        ("updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
        ("persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"})),
    ] {
        assert_eq!(spec[field], expected, "{field}");
    }
    assert_eq!(
        spec["volumeClaimTemplates"][0],
        json!({
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "volumeMode": "Filesystem"},
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "status": {"phase": "Pending"},
        })
    );
}

#[test]
fn validation() {
    let check = |spec: Value, expected: &[&str]| check::errors("statefulsets", stateful_set(spec), expected);
    check(json!({}), &[]);
    check(
        json!({"volumeClaimTemplates": []}),
        &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""],
    );
    check(json!({"podManagementPolicy": "x"}), &["spec.podManagementPolicy: Invalid value: \"x\": must be"]);
    check(
        json!({"updateStrategy": {"type": "x"}}),
        &["spec.updateStrategy.type: Invalid value: \"x\": must be"],
    );
    check(
        json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}),
        &["spec.updateStrategy.rollingUpdate: Invalid value: {}: only allowed"],
    );
    check(json!({"ordinals": {"start": -1}}), &["spec.ordinals.start: Invalid value: -1"]);
    check(
        json!({"replicas": -1, "serviceName": "A"}),
        &["spec.replicas: Invalid", "spec.serviceName: Invalid"],
    );
    check(
        json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}),
        &[
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
            "spec.volumeClaimTemplates[0].spec.resources.requests[storage]: Required value",
        ],
    );
}

#[test]
fn updates() {
    let check = |spec: Value, expected: &[&str]| {
        check::update_errors("statefulsets", stateful_set(spec), stateful_set(json!({})), expected);
    };
    check(json!({"replicas": 3, "minReadySeconds": 1, "ordinals": {"start": 1}}), &[]);
    check(
        json!({"serviceName": "other"}),
        &[
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template'",
        ],
    );
}

#[test]
fn row() {
    let mut object = stateful_set(json!({"replicas": 3}));
    object["status"] = json!({"readyReplicas": 1});
    check::row("statefulsets", object, &["web", "1/3", "60m", "c", "i:1"]);
}
