//! What becomes of empty values: Go sends those of fields that are no pointers, and its JSON shows only some.

use serde_json::{Value, json};

use super::{bytes, decoded, message, number};

#[track_caller]
fn check<const N: usize>((api_version, kind): (&str, &str), fields: [Vec<u8>; N], expected: Value) {
    assert_eq!(decoded(api_version, kind, fields), Ok(expected));
}

#[test]
fn pointers_keep_their_zero() {
    check(("apps/v1", "Deployment"), [message(2, [number(1, 0)])], json!({"spec": {"replicas": 0}}));
    check(("apps/v1", "ReplicaSet"), [message(2, [number(1, 0)])], json!({"spec": {"replicas": 0}}));
    check(
        ("batch/v1", "Job"),
        [message(2, [number(1, 0), number(2, 0), number(7, 0), number(8, 0), number(10, 0)])],
        json!({"spec": {
            "parallelism": 0, "completions": 0, "backoffLimit": 0, "ttlSecondsAfterFinished": 0, "suspend": false,
        }}),
    );
    check(("v1", "ServiceAccount"), [number(4, 0)], json!({"automountServiceAccountToken": false}));
    check(("v1", "ConfigMap"), [number(4, 0)], json!({"immutable": false}));
    check(("v1", "Secret"), [number(5, 0)], json!({"immutable": false}));
    check(
        ("v1", "Pod"),
        [message(2, [number(4, 0), number(21, 0), number(30, 0), number(25, 0)])],
        json!({"spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "priority": 0,
        }}),
    );
    let security = message(15, [number(2, 0), number(4, 0), number(5, 0), number(6, 0), number(7, 0)]);
    check(
        ("v1", "Pod"),
        [message(2, [message(2, [bytes(1, "c"), security])])],
        json!({"spec": {"containers": [{"name": "c", "securityContext": {
            "privileged": false,
            "runAsUser": 0,
            "runAsNonRoot": false,
            "readOnlyRootFilesystem": false,
            "allowPrivilegeEscalation": false,
        }}]}}),
    );
    check(
        ("v1", "PersistentVolumeClaim"),
        [message(2, [bytes(5, "")])],
        json!({"spec": {"storageClassName": ""}}),
    );
    check(
        ("v1", "DeleteOptions"),
        [number(1, 0), number(3, 0)],
        json!({
            "gracePeriodSeconds": 0, "orphanDependents": false,
        }),
    );
}

#[test]
fn values_that_json_leaves_out() {
    let meta = message(
        1,
        [
            bytes(1, "p"),
            bytes(2, ""),
            bytes(3, ""),
            bytes(4, ""),
            bytes(5, ""),
            bytes(6, ""),
            number(7, 0),
            bytes(8, ""),
        ],
    );
    let container = message(
        2,
        [
            bytes(1, "c"),
            bytes(2, "busybox"),
            bytes(5, ""),
            bytes(8, ""),
            bytes(13, ""),
            bytes(14, ""),
            number(16, 0),
            number(17, 0),
            number(18, 0),
            bytes(20, ""),
        ],
    );
    let spec = message(
        2,
        [
            container,
            bytes(3, ""),
            bytes(6, ""),
            bytes(8, ""),
            bytes(9, ""),
            bytes(10, ""),
            number(11, 0),
            number(12, 0),
            number(13, 0),
            bytes(16, ""),
            bytes(17, ""),
            bytes(19, ""),
            bytes(24, ""),
        ],
    );
    let status = message(3, [bytes(1, ""), bytes(3, ""), bytes(4, ""), bytes(5, ""), bytes(6, "")]);
    // Structs stay, as in Go: `omitempty` does not know an empty struct.
    check(
        ("v1", "Pod"),
        [meta, spec, status],
        json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "busybox", "resources": {}}]},
            "status": {},
        }),
    );
    check(
        ("v1", "Pod"),
        [message(2, [message(2, [message(9, [bytes(1, "m"), number(2, 0), bytes(3, "/m"), bytes(4, "")])])])],
        json!({"spec": {"containers": [{"volumeMounts": [{"name": "m", "mountPath": "/m"}], "name": ""}]}}),
    );
}

#[test]
fn values_that_json_always_shows() {
    check(("scheduling.k8s.io/v1", "PriorityClass"), [number(2, 0), number(3, 0)], json!({"value": 0}));
    check(("scheduling.k8s.io/v1", "PriorityClass"), [], json!({"value": 0}));
    let rule = message(2, [bytes(1, "get"), bytes(3, "pods"), bytes(2, "")]);
    check(
        ("rbac.authorization.k8s.io/v1", "Role"),
        [rule],
        json!({"rules": [{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]}]}),
    );
    check(
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        [message(3, [bytes(2, "Role"), bytes(3, "reader")])],
        json!({"roleRef": {"kind": "Role", "name": "reader", "apiGroup": ""}}),
    );
    check(
        ("policy/v1", "PodDisruptionBudget"),
        [message(3, [number(3, 0), number(4, 0), number(5, 0), number(6, 0)])],
        json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}}),
    );
}
