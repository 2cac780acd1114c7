//! The runtime's AppArmor profile, or one that the node's administrator loaded; not none at all.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::{Sorted, plural, quoted, setters};

pub const CHECK: Check =
    Check { id: "appArmorProfile", level: Level::Baseline, revisions: &[Revision::since(0, since_1_0)] };

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let mut values = Sorted::new();
    let pod_sets = forbidden_type(pod.security(), &mut values);
    let mut names = Vec::new();
    for container in pod.containers() {
        if forbidden_type(container.security(), &mut values) {
            names.push(container.name);
        }
    }
    let mut annotations: Vec<String> = pod
        .annotations()
        .filter(|(key, value)| key.starts_with(ANNOTATION) && !is_allowed_annotation(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    annotations.sort_unstable();
    let mut who = setters(pod_sets, &names);
    if !annotations.is_empty() {
        who.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    let values: Vec<&str> = values.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    (!who.is_empty()).then(|| Violation {
        reason: plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len()),
        detail: format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values)),
    })
}

fn is_allowed_annotation(value: &str) -> bool {
    value.is_empty() || value == "runtime/default" || value.starts_with("localhost/")
}

/// Whether a security context sets a profile type that is not allowed, which is noted.
fn forbidden_type<'a>(security: &'a serde_json::Value, values: &mut Sorted<'a>) -> bool {
    let profile = &security["appArmorProfile"];
    let ty = profile["type"].as_str().unwrap_or_default();
    let is_forbidden = !profile.is_null() && !matches!(ty, "RuntimeDefault" | "Localhost");
    if is_forbidden {
        values.insert(ty);
    }
    is_forbidden
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn app_armor_profile_must_confine() {
        let set = |ty: &str| json!({"appArmorProfile": {"type": ty}});
        let pod = |ty: &str| json!({"spec": {"securityContext": set(ty), "containers": [{"name": "c"}]}});
        let container =
            |ty: &str| json!({"spec": {"containers": [{"name": "c", "securityContext": set(ty)}]}});
        let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {format!("{ANNOTATION}{key}"): value}}, "spec": {}});
        let mixed = json!({
            "metadata": {"annotations": {format!("{ANNOTATION}b"): "x", format!("{ANNOTATION}a"): "unconfined"}},
            "spec": {"securityContext": set("Unconfined"), "containers": [
                {"name": "c", "securityContext": set("Other")}, {"name": "d", "securityContext": set("Unconfined")}]},
        });
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {"containers": [{"name": "c"}]}}), ""),
                (pod("RuntimeDefault"), ""),
                (container("Localhost"), ""),
                (annotated("c", "runtime/default"), ""),
                (annotated("c", "localhost/x"), ""),
                (annotated("c", ""), ""),
                (
                    pod("Unconfined"),
                    "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")",
                ),
                (
                    container("Unconfined"),
                    "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
                ),
                (
                    annotated("c", "unconfined"),
                    "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
                     \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")",
                ),
                (
                    mixed,
                    "forbidden AppArmor profiles (pod and containers \"c\", \"d\" and annotations must not set \
                     AppArmor profile type to \"Other\", \"Unconfined\", \
                     \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\", \
                     \"container.apparmor.security.beta.kubernetes.io/b=\"x\"\")",
                ),
            ],
        );
    }
}
