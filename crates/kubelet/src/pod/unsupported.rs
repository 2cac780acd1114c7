//! What a pod demands, above all for its security, and this node cannot give. Such a pod is never run without it: nothing
//! that was asked for is quietly left out.
//!
//! As upstream's kubelet does it: a pod for another system, or with an AppArmor profile that nobody would
//! enforce, fails for good; one that wants users of its own waits, with an event that says why. Mounts that are to
//! be read-only all the way down are refused where mounts are made (`volume/mounts.rs`).

use std::path::Path;

use k8s_openapi::api::core::v1 as core;

use super::desired_pod::DesiredPod;
use super::operation::{Operation, OperationError, Result};
use crate::container::AppArmor;
use crate::events::Severity;

pub const OS: &str = "PodOSNotSupported";
pub const APP_ARMOR: &str = "AppArmor";
const NO_SANDBOX: &str = "FailedCreatePodSandBox";

impl Operation {
    /// Looks at a pod before anything of it is made.
    pub(super) fn check_supported(&self) -> Result<()> {
        let Some(error) = unsupported(&self.desired_pod, has_app_armor(Path::new("/sys"))) else {
            return Ok(());
        };
        if error.reason == NO_SANDBOX {
            let message = format!("Failed to create pod sandbox: {}", error.message);
            self.event(None, Severity::Warning, NO_SANDBOX, &message);
        }
        Err(error)
    }
}

fn unsupported(desired_pod: &DesiredPod, has_app_armor: bool) -> Option<OperationError> {
    let spec = desired_pod.spec()?;
    // Pod Security asks less of Windows pods, so they must not become Linux ones here.
    if spec.os.as_ref().is_some_and(|os| os.name != "linux") {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return Some(OperationError::new(OS, message));
    }
    let mut profiles =
        desired_pod.containers.iter().filter_map(|container| AppArmor::of(desired_pod, container));
    let wants_profile = profiles.any(|profile| profile != AppArmor::Unconfined);
    if wants_profile && !has_app_armor {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        return Some(OperationError::new(APP_ARMOR, message));
    }
    // And less of pods with users of their own.
    if spec.host_users == Some(false) {
        let message = "can't set `spec.hostUsers: false`, runtime does not support user namespaces";
        return Some(OperationError::new(NO_SANDBOX, message));
    }
    desired_pod.containers.iter().find_map(|container| unknown_feature(&container.spec))
}

/// What a container's command depends on, and this node does not know how to do.
fn unknown_feature(container: &core::Container) -> Option<OperationError> {
    let mut sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    let mut rules = container.restart_policy_rules.iter().flatten();
    let stop_signal = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_ref());
    let field = if sources.any(|source| source.file_key_ref.is_some()) {
        "env[].valueFrom.fileKeyRef"
    } else if rules.any(|rule| rule.action == "RestartAllContainers") {
        "restartPolicyRules[].action: RestartAllContainers"
    } else if stop_signal.is_some() {
        "lifecycle.stopSignal"
    } else {
        return None;
    };
    let message =
        format!("can't set `{field}` of container {:?}: this node does not have it", container.name);
    Some(OperationError::new(NO_SANDBOX, &message))
}

/// Whether the kernel enforces profiles.
fn has_app_armor(sys: &Path) -> bool {
    let enabled = std::fs::read(sys.join("module/apparmor/parameters/enabled"));
    sys.join("kernel/security/apparmor").exists() && enabled.is_ok_and(|text| text.first() == Some(&b'Y'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn pod_is_refused_for_what_the_node_does_not_do() {
        let check = |mut spec: Value, has_app_armor: bool, expected: Option<&str>| {
            if spec["containers"].is_null() {
                spec["containers"] = json!([{"name": "c"}]);
            }
            let pod = json!({"metadata": {}, "spec": spec});
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            let found = unsupported(&desired_pod, has_app_armor).map(|error| error.reason);
            assert_eq!(found, expected, "{spec}");
        };
        check(json!({}), false, None);
        check(json!({"os": {"name": "linux"}, "hostUsers": true}), false, None);
        check(json!({"os": {"name": "windows"}}), true, Some(OS));
        check(json!({"hostUsers": false}), true, Some(NO_SANDBOX));
        let container = |fields: Value| {
            let mut container = json!({"name": "c"});
            container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({"containers": [container]})
        };
        let file = json!({"volumeName": "v", "path": "p", "key": "k"});
        let variable = |source: Value| json!({"env": [{"name": "e", "valueFrom": source}]});
        check(container(variable(json!({"fileKeyRef": file}))), true, Some(NO_SANDBOX));
        check(container(variable(json!({"secretKeyRef": {"name": "s", "key": "k"}}))), true, None);
        let rules = |action: &str| {
            let codes = json!({"operator": "In", "values": [1]});
            json!({"restartPolicy": "Never", "restartPolicyRules": [{"action": action, "exitCodes": codes}]})
        };
        check(container(rules("RestartAllContainers")), true, Some(NO_SANDBOX));
        check(container(rules("Restart")), true, None);
        check(container(json!({"lifecycle": {"stopSignal": "SIGUSR1"}})), true, Some(NO_SANDBOX));
        let profile = |ty: &str| json!({"appArmorProfile": {"type": ty, "localhostProfile": "p"}});
        for (ty, expected) in
            [("RuntimeDefault", Some(APP_ARMOR)), ("Localhost", Some(APP_ARMOR)), ("Unconfined", None)]
        {
            check(json!({"securityContext": profile(ty)}), false, expected);
            let containers = json!([{"name": "a"}, {"name": "b", "securityContext": profile(ty)}]);
            check(json!({"containers": containers}), false, expected);
            check(json!({"securityContext": profile(ty)}), true, None);
        }
    }

    #[test]
    fn app_armor_is_there_when_the_kernel_says_so() {
        let sys = tempfile::tempdir().unwrap();
        let flag = sys.path().join("module/apparmor/parameters/enabled");
        assert!(!has_app_armor(sys.path()));
        std::fs::create_dir_all(flag.parent().unwrap()).unwrap();
        std::fs::write(&flag, "Y\n").unwrap();
        assert!(!has_app_armor(sys.path()), "without its files nobody loads a profile");
        std::fs::create_dir_all(sys.path().join("kernel/security/apparmor")).unwrap();
        assert!(has_app_armor(sys.path()));
        std::fs::write(&flag, "N\n").unwrap();
        assert!(!has_app_armor(sys.path()));
    }
}
