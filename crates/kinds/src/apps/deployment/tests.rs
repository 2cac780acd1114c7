use serde_json::{Value, json};

use crate::check;

fn deployment(spec: Value) -> Value {
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:1"}]},
    });
    let mut full = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
    full.as_object_mut().expect("object").extend(spec.as_object().expect("object").clone());
    json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T11:00:00Z"}, "spec": full})
}

#[test]
fn defaults() {
    let spec = check::defaulted("deployments", deployment(json!({})))["spec"].clone();
    assert_eq!(
        (&spec["replicas"], &spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
        (&json!(1), &json!(10), &json!(600))
    );
    let rolling =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}});
    assert_eq!(spec["strategy"], rolling);
    let recreate = deployment(json!({"strategy": {"type": "Recreate"}}));
    assert_eq!(check::defaulted("deployments", recreate)["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn validation() {
    let check = |spec: Value, expected: &[&str]| check::errors("deployments", deployment(spec), expected);
    let rolling = |unavailable: Value, surge: Value| json!({"strategy": {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}});
    let at = "spec.strategy.rollingUpdate";
    check(json!({}), &[]);
    check(rolling(json!("50%"), json!(0)), &[]);
    check(
        rolling(json!(0), json!("0%")),
        &[&format!("{at}.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0")],
    );
    check(
        rolling(json!("101%"), json!(1)),
        &[&format!("{at}.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%")],
    );
    check(
        rolling(json!(1), json!("x")),
        &[&format!("{at}.maxSurge: Invalid value: \"x\": a valid percent string")],
    );
    check(
        rolling(json!(-1), json!(1)),
        &[&format!("{at}.maxUnavailable: Invalid value: -1: must be greater")],
    );
    check(
        json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
        &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    );
    check(
        json!({"strategy": {"type": "BlueGreen"}}),
        &["spec.strategy.type: Unsupported value: \"BlueGreen\""],
    );
    check(
        json!({"minReadySeconds": 600}),
        &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
    );
    check(
        json!({"replicas": -2, "selector": null}),
        &["spec.replicas: Invalid value: -2", "spec.selector: Required value"],
    );
}

#[test]
fn the_selector_stays() {
    let other = json!({"selector": {"matchLabels": {"app": "b"}}});
    let expected = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable";
    check::update_errors("deployments", deployment(other), deployment(json!({})), &[expected]);
    check::update_errors("deployments", deployment(json!({"replicas": 5})), deployment(json!({})), &[]);
}

#[test]
fn row() {
    let mut object = deployment(json!({"replicas": 3}));
    object["status"] = json!({"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2});
    check::row("deployments", object, &["web", "2/3", "3", "2", "60m", "c,d", "i:1,j:1", "app=a"]);
}
