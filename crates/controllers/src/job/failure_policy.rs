//! What a Job's pod failure policy says about a failed pod.

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use minik8s_runtime::key_of;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The Job fails, for this reason.
    FailJob(String),
    /// The pod's index fails.
    FailIndex,
    /// As if it had not happened.
    Ignore,
    Count,
}

/// The first rule that matches decides; without one, the failure counts.
pub fn judge(job: &Job, pod: &Pod) -> Verdict {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    for (i, rule) in policy.iter().flat_map(|policy| &policy.rules).enumerate() {
        let Some(what) = matches(rule, pod) else { continue };
        return match rule.action.as_str() {
            "FailJob" => Verdict::FailJob(format!("{what} matching FailJob rule at index {i}")),
            "FailIndex" => Verdict::FailIndex,
            "Ignore" => Verdict::Ignore,
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

/// How the rule matches, in words.
fn matches(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    if let Some(codes) = &rule.on_exit_codes {
        return exit_code(codes, pod);
    }
    for pattern in rule.on_pod_conditions.iter().flatten() {
        let wanted = pattern.status.as_deref().unwrap_or("True");
        let condition = crate::pods::condition(pod, &pattern.type_);
        if condition.is_some_and(|condition| condition.status == wanted) {
            return Some(format!("Pod {} has condition {}", key_of(pod), pattern.type_));
        }
    }
    None
}

fn exit_code(codes: &PodFailurePolicyOnExitCodesRequirement, pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let mut all = containers.chain(status.init_container_statuses.iter().flatten());
    all.find_map(|container: &ContainerStatus| {
        if codes.container_name.as_ref().is_some_and(|name| *name != container.name) {
            return None;
        }
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        let listed = codes.values.contains(&code);
        let hit = match codes.operator.as_str() {
            "In" => listed,
            "NotIn" => code != 0 && !listed,
            _ => false,
        };
        hit.then(|| {
            format!("Container {} for pod {} failed with exit code {code}", container.name, key_of(pod))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(rule: Value, exit_code: i32, expected: Verdict) {
        let shown = rule.to_string();
        let job = json!({"metadata": {}, "spec": {"template": {}, "podFailurePolicy": {"rules": [rule]}}});
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": exit_code}}}],
            },
        });
        let (job, pod) = (serde_json::from_value(job).unwrap(), serde_json::from_value(pod).unwrap());
        assert_eq!(judge(&job, &pod), expected, "{shown}");
    }

    #[test]
    fn rules() {
        let codes = |action: &str, operator: &str, values: &[i32]| json!({"action": action, "onExitCodes": {"operator": operator, "values": values}});
        let message = "Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 0";
        check(codes("FailJob", "In", &[42]), 42, Verdict::FailJob(message.to_owned()));
        check(codes("FailJob", "In", &[42]), 1, Verdict::Count);
        check(codes("Ignore", "NotIn", &[42]), 1, Verdict::Ignore);
        check(codes("FailIndex", "In", &[1]), 1, Verdict::FailIndex);
        let other = json!({"containerName": "side", "operator": "In", "values": [1]});
        check(json!({"action": "FailJob", "onExitCodes": other}), 1, Verdict::Count);
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
        check(json!({"action": "Ignore", "onPodConditions": disrupted}), 1, Verdict::Ignore);
        let config = json!([{"type": "ConfigIssue", "status": "True"}]);
        check(json!({"action": "Ignore", "onPodConditions": config}), 1, Verdict::Count);
    }
}
