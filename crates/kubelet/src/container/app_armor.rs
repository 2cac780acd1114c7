//! Which AppArmor profile a container wants. Pure: whether the node can enforce one is asked elsewhere.

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;

use crate::pod::{ContainerSpec, DesiredPod};

/// What was said before there was a field; the container's name follows.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppArmor {
    RuntimeDefault,
    Localhost(String),
    Unconfined,
    /// An annotation that means nothing. It is never taken for none: somebody wanted something.
    Unknown(String),
}

impl AppArmor {
    /// The container's own word, then the annotation about it, then the pod's word; None if nothing is said.
    pub fn of(desired_pod: &DesiredPod, container: &ContainerSpec) -> Option<AppArmor> {
        let own = container.spec.security_context.as_ref().and_then(|c| c.app_armor_profile.as_ref());
        let annotations = desired_pod.pod.metadata.annotations.as_ref();
        let annotated = annotations.and_then(|all| all.get(&format!("{ANNOTATION}{}", container.spec.name)));
        let pod = desired_pod.spec().and_then(|spec| spec.security_context.as_ref());
        let of_pod = || pod.and_then(|context| context.app_armor_profile.as_ref());
        match (own, annotated.filter(|value| !value.is_empty())) {
            (Some(own), _) => Some(of_field(own)),
            (None, Some(value)) => Some(of_annotation(value)),
            (None, None) => of_pod().map(of_field),
        }
    }

    pub fn to_cri(&self) -> cri::SecurityProfile {
        use cri::security_profile::ProfileType;
        let (kind, file) = match self {
            AppArmor::RuntimeDefault => (ProfileType::RuntimeDefault, ""),
            AppArmor::Unconfined => (ProfileType::Unconfined, ""),
            AppArmor::Localhost(name) | AppArmor::Unknown(name) => (ProfileType::Localhost, name.as_str()),
        };
        cri::SecurityProfile { profile_type: kind as i32, localhost_ref: file.to_owned() }
    }
}

fn of_field(profile: &core::AppArmorProfile) -> AppArmor {
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("RuntimeDefault", _) => AppArmor::RuntimeDefault,
        ("Unconfined", _) => AppArmor::Unconfined,
        ("Localhost", Some(name)) => AppArmor::Localhost(name.clone()),
        (other, _) => AppArmor::Unknown(other.to_owned()),
    }
}

fn of_annotation(value: &str) -> AppArmor {
    match value.strip_prefix("localhost/") {
        Some(name) => AppArmor::Localhost(name.to_owned()),
        None if value == "runtime/default" => AppArmor::RuntimeDefault,
        None if value == "unconfined" => AppArmor::Unconfined,
        None => AppArmor::Unknown(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn app_armor_profile_of_the_container_counts_most() {
        let check = |container: Value, annotation: Value, pod: Value, expected: Option<AppArmor>| {
            let set = |profile: &Value| match profile {
                Value::Null => json!({}),
                profile => json!({"appArmorProfile": profile}),
            };
            let annotations = match &annotation {
                Value::Null => json!({}),
                value => json!({format!("{ANNOTATION}c"): value}),
            };
            let pod = json!({"metadata": {"annotations": annotations}, "spec": {"securityContext": set(&pod),
                "containers": [{"name": "c", "securityContext": set(&container)}]}});
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(AppArmor::of(&desired_pod, &desired_pod.containers[0]), expected);
        };
        let default = || json!({"type": "RuntimeDefault"});
        let local = || json!({"type": "Localhost", "localhostProfile": "p"});
        let named = |name: &str| Some(AppArmor::Localhost(name.to_owned()));
        check(json!(null), json!(null), json!(null), None);
        check(json!(null), json!(""), json!(null), None);
        check(local(), json!("unconfined"), default(), named("p"));
        check(json!(null), json!("localhost/q"), default(), named("q"));
        check(json!(null), json!("runtime/default"), json!(null), Some(AppArmor::RuntimeDefault));
        check(json!(null), json!("unconfined"), default(), Some(AppArmor::Unconfined));
        check(json!(null), json!("nonsense"), default(), Some(AppArmor::Unknown("nonsense".to_owned())));
        check(json!(null), json!(null), default(), Some(AppArmor::RuntimeDefault));
    }
}
