//! Every container has a seccomp profile, its own or the pod's.

use super::seccomp_baseline::{self, is_confining, profile};
use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::containers;

pub const CHECK: Check = Check {
    id: "seccompProfile_restricted",
    level: Level::Restricted,
    revisions: &[
        Revision { since: 19, find: since_1_19, overrides: &[seccomp_baseline::ID] },
        Revision { since: 25, find: since_1_25, overrides: &[seccomp_baseline::ID] },
    ],
};

fn since_1_19(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(set) = seccomp_baseline::since_1_19(pod) {
        return Some(set);
    }
    if profile(pod.security()).is_some_and(is_confining) {
        return None;
    }
    let bare = pod.containers().filter(|container| profile(container.security()).is_none());
    let bare: Vec<&str> = bare.map(|container| container.name).collect();
    (!bare.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&bare)
        ),
    })
}

/// A Windows pod cannot set it.
fn since_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { since_1_19(pod) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn seccomp_profile_must_be_set() {
        let set = |ty: &str| json!({"seccompProfile": {"type": ty}});
        let bare = "seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \
                    \"RuntimeDefault\" or \"Localhost\")";
        let cases = [
            (json!({"spec": {"securityContext": set("RuntimeDefault"), "containers": [{"name": "c"}]}}), ""),
            (json!({"spec": {"containers": [{"name": "c", "securityContext": set("Localhost")}]}}), ""),
            (json!({"spec": {"containers": [{"name": "c"}]}}), bare),
            (
                json!({"spec": {"containers": [{"name": "c"}, {"name": "d", "securityContext": set("Localhost")}]}}),
                bare,
            ),
            (
                json!({"spec": {"securityContext": set("RuntimeDefault"), "containers": [{"name": "c", "securityContext": set("Unconfined")}]}}),
                "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
            ),
        ];
        expect(&CHECK, 19, &cases);
        expect(&CHECK, 37, &cases);
        let windows = json!({"spec": {"os": {"name": "windows"}, "containers": [{"name": "c"}]}});
        expect(&CHECK, 24, &[(windows.clone(), bare)]);
        expect(&CHECK, 25, &[(windows, "")]);
        expect(&CHECK, 18, &[(json!({"spec": {"containers": [{"name": "c"}]}}), "")]);
    }
}
