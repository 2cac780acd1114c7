use serde_json::{Value, json};

use super::Jobs;
use crate::Strategy;
use crate::check;

/// A Job as it is stored: defaulted and with its generated selector.
fn job(spec: Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}});
    let mut full = json!({ "template": template });
    full.as_object_mut().expect("object").extend(spec.as_object().expect("object").clone());
    let mut object = json!({
        "metadata": {"name": "j", "uid": "u", "creationTimestamp": "2026-01-01T11:00:00Z"},
        "spec": full,
    });
    Strategy::default(&Jobs, &mut object);
    Jobs.prepare_create(&mut object);
    object
}

#[test]
fn defaults() {
    let spec = job(json!({}))["spec"].clone();
    for (field, expected) in [
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        assert_eq!(spec[field], expected, "{field}");
    }
    assert_eq!(job(json!({"parallelism": 3}))["spec"].get("completions"), None);
    assert_eq!(job(json!({"completions": 3}))["spec"]["parallelism"], 1);
    let per_index = job(json!({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}));
    assert_eq!(per_index["spec"]["backoffLimit"], i32::MAX);
}

#[test]
fn validation() {
    let check = |spec: Value, expected: &[&str]| check::errors("jobs", job(spec), expected);
    check(json!({}), &[]);
    check(json!({"parallelism": -1}), &["spec.parallelism: Invalid value: -1"]);
    check(
        json!({"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}),
        &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
    );
    check(
        json!({"completionMode": "Indexed", "parallelism": 1}),
        &["spec.completions: Required value: when completion mode is Indexed"],
    );
    check(
        json!({"backoffLimitPerIndex": 1}),
        &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    );
    check(
        json!({"selector": {"matchLabels": {"a": "b"}}}),
        &[
            "spec.template.metadata.labels: Invalid value",
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: `selector` not auto-generated",
        ],
    );
    check(
        json!({"managedBy": "x"}),
        &["spec.managedBy: Invalid value: \"x\": must be a domain-prefixed path"],
    );
}

#[test]
fn policies() {
    let failure = |rule: Value| json!({ "podFailurePolicy": {"rules": [rule]} });
    let check = |spec: Value, expected: &[&str]| check::errors("jobs", job(spec), expected);
    let at = "spec.podFailurePolicy.rules[0]";
    check(failure(json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}})), &[]);
    check(failure(json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]})), &[]);
    check(
        failure(json!({"action": "Count"})),
        &[&format!("{at}: Invalid value: {{\"action\":\"Count\"}}: specifying one of")],
    );
    check(
        failure(json!({"action": "Explode", "onExitCodes": {"operator": "In", "values": [0, 3, 2]}})),
        &[
            &format!("{at}.action: Unsupported value: \"Explode\""),
            &format!("{at}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"),
            &format!("{at}.onExitCodes.values: Invalid value: [0,3,2]: must be ordered"),
        ],
    );
    check(
        failure(
            json!({"action": "FailIndex", "onExitCodes": {"containerName": "x", "operator": "NotIn", "values": [1]}}),
        ),
        &[
            &format!("{at}.action: Invalid value"),
            &format!("{at}.onExitCodes.containerName: Invalid value: \"x\""),
        ],
    );
    let success = |rule: Value| json!({"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": [rule]}});
    let at = "spec.successPolicy.rules[0]";
    check(success(json!({"succeededIndexes": "0,2-4", "succeededCount": 3})), &[]);
    check(success(json!({})), &[&format!("{at}: Required value")]);
    check(
        success(json!({"succeededIndexes": "0-5"})),
        &[&format!("{at}.succeededIndexes: Invalid value: \"0-5\": too large index")],
    );
    check(
        success(json!({"succeededIndexes": "3,1"})),
        &[&format!("{at}.succeededIndexes: Invalid value: \"3,1\": non-increasing order")],
    );
    check(
        success(json!({"succeededIndexes": "a"})),
        &[&format!("{at}.succeededIndexes: Invalid value: \"a\": cannot convert")],
    );
    check(
        success(json!({"succeededCount": 6})),
        &[&format!("{at}.succeededCount: Invalid value: 6: must be less than or equal to 5")],
    );
}

#[test]
fn updates() {
    let check = |new: Value, old: Value, expected: &[&str]| {
        check::update_errors("jobs", job(new), job(old), expected)
    };
    check(json!({"parallelism": 2, "completions": 1}), json!({}), &[]);
    check(json!({"completions": 2}), json!({}), &["spec.completions: Invalid value: 2: field is immutable"]);
    let indexed = |n: i64, parallel: i64| json!({"completionMode": "Indexed", "completions": n, "parallelism": parallel});
    check(indexed(3, 3), indexed(2, 2), &[]);
    check(
        indexed(3, 2),
        indexed(2, 2),
        &["spec.completions: Invalid value: 3: can only be modified in tandem"],
    );
    let template = |image: &str, nodes: Value, suspend: bool| {
        let spec = json!({"restartPolicy": "Never", "nodeSelector": nodes,
            "containers": [{"name": "c", "image": image}]});
        json!({"suspend": suspend, "template": {"spec": spec}})
    };
    let immutable = &["spec.template: Invalid value"];
    check(template("j", json!({}), false), template("i", json!({}), false), immutable);
    check(template("i", json!({"a": "b"}), false), template("i", json!({}), false), immutable);
    check(template("i", json!({"a": "b"}), false), template("i", json!({}), true), &[]);
    check(template("j", json!({}), false), template("i", json!({}), true), immutable);
}

#[test]
fn row() {
    let mut object = job(json!({"completions": 3}));
    object["status"] = json!({"startTime": "2026-01-01T11:00:00Z", "succeeded": 1});
    let selector = "batch.kubernetes.io/controller-uid=u";
    check::row("jobs", object.clone(), &["j", "Running", "1/3", "60m", "60m", "c", "i:1", selector]);
    object["status"]["completionTime"] = json!("2026-01-01T11:01:30Z");
    object["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    check::row("jobs", object, &["j", "Complete", "1/3", "90s", "60m", "c", "i:1", selector]);
}
