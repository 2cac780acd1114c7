//! How far a change has come, in kubectl's words. Pure.

use serde_json::Value;

use crate::error::{Error, Result};

const REVISION: &str = "deployment.kubernetes.io/revision";

/// What to say, and whether it is complete.
pub fn of(kind: &str, object: &Value, revision: i64) -> Result<(String, bool)> {
    match kind {
        "Deployment" => deployment(object, revision),
        "DaemonSet" => daemon_set(object),
        "StatefulSet" => stateful_set(object),
        other => Err(Error::plain(format!("no status viewer has been implemented for {other}"))),
    }
}

/// How many pods are as wanted, and how many there are to be.
pub fn replicas(kind: &str, object: &Value) -> (i64, i64) {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (updated, available, wanted) = match kind {
        "DaemonSet" => ("updatedNumberScheduled", "numberAvailable", &status["desiredNumberScheduled"]),
        "StatefulSet" => ("updatedReplicas", "readyReplicas", &spec["replicas"]),
        _ => ("updatedReplicas", "availableReplicas", &spec["replicas"]),
    };
    (number(&status[updated]).min(number(&status[available])), number(wanted))
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_observed(object: &Value) -> bool {
    number(&object["metadata"]["generation"]) <= number(&object["status"]["observedGeneration"])
}

fn deployment(object: &Value, revision: i64) -> Result<(String, bool)> {
    let current =
        object["metadata"]["annotations"][REVISION].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    if revision > 0 && current != revision {
        return Err(Error::plain(format!(
            "desired revision ({revision}) is different from the running revision ({current})"
        )));
    }
    if !is_observed(object) {
        return Ok(("Waiting for deployment spec update to be observed...\n".to_owned(), false));
    }
    let (status, name) = (&object["status"], name(object));
    let conditions = status["conditions"].as_array().into_iter().flatten();
    if conditions.into_iter().any(|c| c["type"] == "Progressing" && c["reason"] == "ProgressDeadlineExceeded")
    {
        return Err(Error::plain(format!("deployment {name:?} exceeded its progress deadline")));
    }
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let (all, updated, available) = (
        number(&status["replicas"]),
        number(&status["updatedReplicas"]),
        number(&status["availableReplicas"]),
    );
    let waiting =
        |what: String| Ok((format!("Waiting for deployment {name:?} rollout to finish: {what}...\n"), false));
    if updated < wanted {
        return waiting(format!("{updated} out of {wanted} new replicas have been updated"));
    }
    if all > updated {
        return waiting(format!("{} old replicas are pending termination", all - updated));
    }
    if available < updated {
        return waiting(format!("{available} of {updated} updated replicas are available"));
    }
    Ok((format!("deployment {name:?} successfully rolled out\n"), true))
}

fn is_on_delete(object: &Value) -> bool {
    object["spec"]["updateStrategy"]["type"] == "OnDelete"
}

fn daemon_set(object: &Value) -> Result<(String, bool)> {
    let (status, name) = (&object["status"], name(object));
    if is_on_delete(object) {
        return Err(Error::plain("rollout status is only available for RollingUpdate strategy type"));
    }
    if !is_observed(object) {
        return Ok(("Waiting for daemon set spec update to be observed...\n".to_owned(), false));
    }
    let (wanted, updated, available) = (
        number(&status["desiredNumberScheduled"]),
        number(&status["updatedNumberScheduled"]),
        number(&status["numberAvailable"]),
    );
    let waiting =
        |what: String| Ok((format!("Waiting for daemon set {name:?} rollout to finish: {what}...\n"), false));
    if updated < wanted {
        return waiting(format!("{updated} out of {wanted} new pods have been updated"));
    }
    if available < wanted {
        return waiting(format!("{available} of {wanted} updated pods are available"));
    }
    Ok((format!("daemon set {name:?} successfully rolled out\n"), true))
}

fn stateful_set(object: &Value) -> Result<(String, bool)> {
    let (spec, status) = (&object["spec"], &object["status"]);
    if is_on_delete(object) {
        return Err(Error::plain("rollout status is only available for RollingUpdate strategy type"));
    }
    if number(&status["observedGeneration"]) == 0 || !is_observed(object) {
        return Ok(("Waiting for statefulset spec update to be observed...\n".to_owned(), false));
    }
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    let (ready, updated) = (number(&status["readyReplicas"]), number(&status["updatedReplicas"]));
    if ready < wanted {
        return Ok((format!("Waiting for {} pods to be ready...\n", wanted - ready), false));
    }
    let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"]);
    if partition > 0 {
        if updated < wanted - partition {
            let text = format!(
                "Waiting for partitioned roll out to finish: {updated} out of {} new pods have been updated...\n",
                wanted - partition
            );
            return Ok((text, false));
        }
        return Ok((
            format!("partitioned roll out complete: {updated} new pods have been updated...\n"),
            true,
        ));
    }
    if status["updateRevision"] != status["currentRevision"] {
        let revision = status["updateRevision"].as_str().unwrap_or_default();
        let text = format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision {revision}...\n"
        );
        return Ok((text, false));
    }
    let (current, revision) =
        (number(&status["currentReplicas"]), status["currentRevision"].as_str().unwrap_or_default());
    Ok((format!("statefulset rolling update complete {current} pods at revision {revision}...\n"), true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deployments() {
        let check = |status: Value, expected: &str, done: bool| {
            let object = json!({"metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3}, "status": status});
            assert_eq!(of("Deployment", &object, 0).unwrap(), (expected.to_owned(), done));
        };
        check(
            json!({"observedGeneration": 1}),
            "Waiting for deployment spec update to be observed...\n",
            false,
        );
        let status = |all: i64, updated: i64, available: i64| json!({"observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "availableReplicas": available});
        let waiting = |what: &str| format!("Waiting for deployment \"web\" rollout to finish: {what}...\n");
        check(status(3, 1, 3), &waiting("1 out of 3 new replicas have been updated"), false);
        check(status(4, 3, 3), &waiting("1 old replicas are pending termination"), false);
        check(status(3, 3, 2), &waiting("2 of 3 updated replicas are available"), false);
        check(status(3, 3, 3), "deployment \"web\" successfully rolled out\n", true);
    }

    #[test]
    fn mistakes() {
        let late = json!({"metadata": {"name": "web"}, "status": {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}});
        assert!(of("Deployment", &late, 0).is_err());
        assert!(of("Deployment", &json!({}), 3).is_err());
        assert!(of("Pod", &json!({}), 0).is_err());
    }
}
