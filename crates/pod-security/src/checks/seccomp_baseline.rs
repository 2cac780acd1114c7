//! A seccomp profile may not be taken away. Until 1.18 annotations said which; since then fields do.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::{Sorted, plural, quoted, setters};

pub const ID: &str = "seccompProfile_baseline";

pub const CHECK: Check = Check {
    id: ID,
    level: Level::Baseline,
    revisions: &[Revision::since(0, since_1_0), Revision::since(19, since_1_19)],
};

const POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let is_known = |key: &str| {
        let container = key.strip_prefix(CONTAINER_ANNOTATION);
        key == POD_ANNOTATION || container.is_some_and(|name| pod.containers().any(|one| one.name == name))
    };
    let is_allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let bad = pod.annotations().filter(|(key, value)| is_known(key) && !is_allowed(value));
    let bad: BTreeSet<String> = bad.map(|(key, value)| format!("{key}={value:?}")).collect();
    let list: Vec<&str> = bad.iter().map(String::as_str).collect();
    (!list.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!("forbidden {} {}", plural("annotation", "annotations", list.len()), list.join(", ")),
    })
}

/// Who sets which forbidden profile.
#[derive(Default)]
pub struct Forbidden<'a> {
    pub pod: bool,
    pub names: Vec<&'a str>,
    pub types: Sorted<'a>,
}

pub fn forbidden<'a>(pod: &Pod<'a>) -> Forbidden<'a> {
    let mut found = Forbidden::default();
    if let Some(ty) = profile(pod.security()).filter(|ty| !is_confining(ty)) {
        found.pod = true;
        found.types.insert(ty);
    }
    for container in pod.containers() {
        if let Some(ty) = profile(container.security()).filter(|ty| !is_confining(ty)) {
            found.names.push(container.name);
            found.types.insert(ty);
        }
    }
    found
}

/// The type of the profile that a security context sets.
pub fn profile(security: &Value) -> Option<&str> {
    let profile = &security["seccompProfile"];
    (!profile.is_null()).then(|| profile["type"].as_str().unwrap_or_default())
}

pub fn is_confining(ty: &str) -> bool {
    matches!(ty, "RuntimeDefault" | "Localhost")
}

pub fn since_1_19(pod: &Pod<'_>) -> Option<Violation> {
    let found = forbidden(pod);
    let who = setters(found.pod, &found.names);
    (!who.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            who.join(" and "),
            quoted(found.types)
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn seccomp_annotations_count_until_1_18() {
        let with = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}, "spec": {"containers": [{"name": "c"}]}});
        let of_container = format!("{CONTAINER_ANNOTATION}c");
        expect(
            &CHECK,
            18,
            &[
                (with(POD_ANNOTATION, "runtime/default"), ""),
                (with(POD_ANNOTATION, "docker/default"), ""),
                (with(&of_container, "localhost/x"), ""),
                (with(&format!("{CONTAINER_ANNOTATION}other"), "unconfined"), ""),
                (
                    with(POD_ANNOTATION, "unconfined"),
                    "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")",
                ),
                (
                    with(&of_container, ""),
                    "seccompProfile (forbidden annotation container.seccomp.security.alpha.kubernetes.io/c=\"\")",
                ),
            ],
        );
        expect(&CHECK, 19, &[(with(POD_ANNOTATION, "unconfined"), "")]);
    }

    #[test]
    fn seccomp_profile_must_not_be_taken_away() {
        let set = |ty: &str| json!({"seccompProfile": {"type": ty}});
        expect(
            &CHECK,
            19,
            &[
                (json!({"spec": {"containers": [{"name": "c"}]}}), ""),
                (
                    json!({"spec": {"securityContext": set("Localhost"), "containers": [{"name": "c", "securityContext": set("RuntimeDefault")}]}}),
                    "",
                ),
                (
                    json!({"spec": {"securityContext": set("Unconfined")}}),
                    "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
                ),
                (
                    json!({"spec": {"securityContext": set("Unconfined"), "containers": [
                        {"name": "c", "securityContext": set("Other")}, {"name": "d", "securityContext": set("Localhost")}]}}),
                    "seccompProfile (pod and container \"c\" must not set securityContext.seccompProfile.type to \
                     \"Other\", \"Unconfined\")",
                ),
            ],
        );
        expect(&CHECK, 18, &[(json!({"spec": {"securityContext": set("Unconfined")}}), "")]);
    }
}
